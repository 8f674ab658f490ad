-- name: HighestJournalSeq :one
SELECT CAST(COALESCE(MAX(seq), 0) AS INTEGER) FROM journal;

-- name: PutMetaOnce :exec
INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING;

-- name: JournalReserve :execrows
INSERT INTO journal (tenant, id, pool, op, revision, slots, at)
SELECT r.tenant, r.id, r.pool, 'reserve', r.revision, r.held, r.reserved_at FROM reservation r WHERE r.seq = ?;
