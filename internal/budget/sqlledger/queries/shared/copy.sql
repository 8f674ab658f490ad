-- Whole ledgers: read page by page for an export, written row by row by an import.

-- name: CountReservations :one
SELECT COUNT(*) FROM reservation;

-- name: CountJournal :one
SELECT COUNT(*) FROM journal;

-- name: JournalAfter :many
SELECT seq, tenant, id, pool, op, revision, slots, at FROM journal WHERE seq > ? ORDER BY seq LIMIT ?;

-- name: OutboxAfter :many
SELECT * FROM outbox WHERE seq > ? ORDER BY seq LIMIT ?;

-- name: AuditAfter :many
SELECT * FROM audit WHERE seq > ? ORDER BY seq LIMIT ?;

-- name: BindingsAfter :many
SELECT * FROM binding
WHERE tenant > ? OR (tenant = ? AND id > ?)
ORDER BY tenant, id LIMIT ?;

-- name: ChunksAfter :many
SELECT * FROM first_chunk
WHERE tenant > ? OR (tenant = ? AND id > ?)
ORDER BY tenant, id LIMIT ?;

-- name: CopyTenant :exec
INSERT INTO tenant_quota (tenant, cap, used, engines, pools, limits) VALUES (?, ?, ?, ?, ?, ?);

-- name: CopyPool :exec
INSERT INTO gpu_pool (pool, cap, used, warm) VALUES (?, ?, ?, ?);

-- name: CopyReservation :exec
INSERT INTO reservation (seq, tenant, id, revision, generation, cost, priority, need, model_name, model_version, spec, spec_hash,
  state, pool, node, held, funded, submits, created_at, reserved_at, release_requested_at, released_at, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: CopyEntry :exec
INSERT INTO journal (seq, tenant, id, pool, op, revision, slots, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: CopyIntent :exec
INSERT INTO outbox (seq, tenant, id, op, generation, payload, funded, attempts, next_attempt_at, lease_owner, lease_until, delivered_at, last_error)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: CopyBinding :exec
INSERT INTO binding (tenant, id, namespace, name, uid, bound_at, ever_ready, first_ready_at, gone_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: CopyAudit :exec
INSERT INTO audit (seq, who, what, at, why, result, tenant, source) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: DropSessions :exec
DELETE FROM session;

-- name: DropKeys :exec
DELETE FROM api_key;

-- name: DropGrants :exec
DELETE FROM model_grant;

-- name: DropEndedGrants :exec
DELETE FROM ended_grant;

-- name: DropChunks :exec
DELETE FROM first_chunk;

-- name: DropAudit :exec
DELETE FROM audit;

-- name: DropTenants :exec
DELETE FROM tenant_quota;

-- name: DropPools :exec
DELETE FROM gpu_pool;

-- name: SetMeta :execrows
UPDATE meta SET value = sqlc.arg(value) WHERE name = sqlc.arg(name);
