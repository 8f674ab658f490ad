-- +goose Up
-- The same for the evidence of account 3, which delays no admission.
INSERT INTO meta (name, value) VALUES ('evidence-turn', '') ON DUPLICATE KEY UPDATE name = VALUES(name);
