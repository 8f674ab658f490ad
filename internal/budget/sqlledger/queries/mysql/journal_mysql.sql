-- name: LedgerIdentity :one
SELECT m.value AS incarnation, f.value AS floor, CAST(COALESCE((SELECT MAX(j.seq) FROM journal j), 0) AS SIGNED) AS journal_seq
FROM meta m LEFT JOIN meta f ON f.name = sqlc.arg(floor_key)
WHERE m.name = sqlc.arg(incarnation_key);

-- name: PutMetaOnce :exec
INSERT INTO meta (name, value) VALUES (?, ?) ON DUPLICATE KEY UPDATE name = VALUES(name);

-- name: DatabaseNow :one
-- Microseconds since 1970, whatever the session's time zone is.
SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED);

-- name: TakeTurn :one
SELECT value FROM meta WHERE name = ? FOR UPDATE;

-- name: InsertMark :exec
INSERT INTO commit_mark (writer, number, at) VALUES (?, ?, ?);

-- name: SetMark :execrows
UPDATE commit_mark SET number = sqlc.arg(number), at = sqlc.arg(now) WHERE writer = sqlc.arg(writer);

-- name: CountChange :exec
INSERT INTO commit_news (writer, changes, at) VALUES (sqlc.arg(writer), 1, sqlc.arg(now)) ON DUPLICATE KEY UPDATE changes = changes + 1, at = VALUES(at);

-- name: ReadNews :many
SELECT writer, changes FROM commit_news;

-- name: DropNews :execrows
DELETE FROM commit_news WHERE writer = ?;

-- name: DropOldNews :execrows
DELETE FROM commit_news WHERE at < ?;

-- name: ReadMark :one
-- Waits for the writer's own transaction to end, if it still runs.
SELECT number FROM commit_mark WHERE writer = ? FOR UPDATE;

-- name: DropMark :execrows
DELETE FROM commit_mark WHERE writer = ?;

-- name: DropOldMarks :execrows
DELETE FROM commit_mark WHERE at < ?;
