-- name: LedgerIdentity :one
SELECT m.value AS incarnation, f.value AS floor, CAST(COALESCE((SELECT MAX(j.seq) FROM journal j), 0) AS INTEGER) AS journal_seq
FROM meta m LEFT JOIN meta f ON f.name = sqlc.arg(floor_key)
WHERE m.name = sqlc.arg(incarnation_key);

-- name: PutMetaOnce :exec
INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING;

-- name: JournalReserve :execrows
INSERT INTO journal (tenant, id, pool, op, revision, slots, at)
SELECT r.tenant, r.id, r.pool, 'reserve', r.revision, r.held, r.reserved_at FROM reservation r WHERE r.seq = ?;
