-- name: GetBinding :one
SELECT * FROM binding WHERE tenant = ? AND id = ?;

-- name: LiveBindings :many
-- The second condition follows from the first, and lets SQLite use its index
-- of live requests.
SELECT b.* FROM reservation r JOIN binding b ON b.tenant = r.tenant AND b.id = r.id
WHERE r.state = 'reserved' AND r.state IN ('waiting', 'reserved');

-- name: BindingsByObject :many
SELECT * FROM binding WHERE uid = ? OR (namespace = ? AND name = ?);

-- name: InsertBinding :exec
INSERT INTO binding (tenant, id, namespace, name, uid, bound_at) VALUES (?, ?, ?, ?, ?, ?);

-- name: MarkReady :execrows
UPDATE binding SET ever_ready = 1, first_ready_at = sqlc.arg(now)
WHERE tenant = sqlc.arg(tenant) AND id = sqlc.arg(id) AND uid = sqlc.arg(uid) AND ever_ready = 0;

-- name: MarkGone :execrows
UPDATE binding SET gone_at = sqlc.arg(now)
WHERE tenant = sqlc.arg(tenant) AND id = sqlc.arg(id) AND uid = sqlc.arg(uid) AND gone_at IS NULL;

-- name: AllBindings :many
SELECT * FROM binding ORDER BY tenant, id;
