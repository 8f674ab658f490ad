-- name: JournalReserve :execrows
INSERT INTO journal (tenant, id, pool, op, revision, slots, at)
SELECT r.tenant, r.id, r.pool, 'reserve', r.revision, r.held, r.reserved_at FROM reservation r WHERE r.seq = ?;

-- name: AppendJournal :exec
INSERT INTO journal (tenant, id, pool, op, revision, slots, at) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: JournalOf :many
SELECT * FROM journal WHERE tenant = ? AND id = ? ORDER BY seq;

-- name: AllJournal :many
SELECT * FROM journal ORDER BY seq;

-- name: HighestJournalSeq :one
SELECT CAST(COALESCE(MAX(seq), 0) AS INTEGER) FROM journal;

-- name: GetMeta :one
SELECT value FROM meta WHERE name = ?;

-- name: PutMetaOnce :exec
INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING;
