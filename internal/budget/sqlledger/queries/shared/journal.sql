-- name: AppendJournal :exec
INSERT INTO journal (tenant, id, pool, op, revision, slots, at) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: JournalOf :many
SELECT seq, tenant, id, pool, op, revision, slots, at FROM journal WHERE tenant = ? AND id = ? ORDER BY seq;

-- name: AllJournal :many
SELECT seq, tenant, id, pool, op, revision, slots, at FROM journal ORDER BY seq;

-- name: LatestJournal :many
SELECT seq, tenant, id, pool, op, revision, slots, at FROM journal ORDER BY seq DESC LIMIT ?;

-- name: GetMeta :one
SELECT value FROM meta WHERE name = ?;

-- name: DropMeta :exec
DELETE FROM meta WHERE name = ?;
