-- +goose Up
-- Who writes anything but new requests locks this row first: see dialect_mysql.go.
INSERT INTO meta (name, value) VALUES ('turn', '') ON DUPLICATE KEY UPDATE name = VALUES(name);
