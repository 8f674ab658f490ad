-- name: IntendApply :execrows
INSERT INTO outbox (tenant, id, op, generation, payload, funded, next_attempt_at)
SELECT r.tenant, r.id, 'apply', r.generation, r.spec, r.funded, sqlc.arg(now)
FROM reservation r WHERE r.seq = sqlc.arg(seq);

-- name: IntendDelete :execrows
INSERT INTO outbox (tenant, id, op, generation, payload, funded, next_attempt_at)
SELECT r.tenant, r.id, 'delete', r.generation, r.spec, 0, sqlc.arg(now)
FROM reservation r WHERE r.seq = sqlc.arg(seq);

-- name: SupersedeApplies :execrows
UPDATE outbox SET delivered_at = sqlc.arg(now), last_error = 'superseded', lease_owner = NULL, lease_until = NULL
WHERE tenant = sqlc.arg(tenant) AND id = sqlc.arg(id) AND op = 'apply' AND delivered_at IS NULL;

-- name: GetIntent :one
SELECT * FROM outbox WHERE seq = ? AND tenant = ? AND id = ? AND op = ?;

-- name: MarkDelivered :execrows
UPDATE outbox SET delivered_at = sqlc.arg(now), last_error = sqlc.arg(last_error), lease_owner = NULL, lease_until = NULL
WHERE seq = sqlc.arg(seq) AND delivered_at IS NULL;

-- name: DeferIntent :execrows
UPDATE outbox SET lease_owner = NULL, lease_until = NULL, next_attempt_at = sqlc.arg(next_attempt_at), last_error = sqlc.arg(last_error)
WHERE seq = sqlc.arg(seq) AND delivered_at IS NULL;

-- name: IntentsOf :many
SELECT * FROM outbox WHERE tenant = ? AND id = ? ORDER BY seq;

-- name: SnapshotIntents :many
SELECT seq, tenant, id, op, generation, funded, delivered_at FROM outbox ORDER BY seq;
