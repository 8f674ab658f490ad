-- +goose Up
-- Who writes anything but new requests locks this row first: see mysqlProtocol.
INSERT INTO meta (name, value) VALUES ('turn', '') ON DUPLICATE KEY UPDATE name = VALUES(name);
