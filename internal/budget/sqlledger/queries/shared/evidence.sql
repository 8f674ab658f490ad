-- name: GetInference :one
SELECT * FROM inference WHERE request_id = ?;

-- name: InferencesOf :many
SELECT * FROM inference WHERE owner = ? AND reservation_id = ?
ORDER BY received_at DESC, request_id DESC LIMIT ?;

-- name: GetChunks :one
SELECT * FROM first_chunk WHERE tenant = ? AND id = ?;

-- name: PruneByAge :execrows
DELETE FROM inference WHERE received_at < ?;

-- name: CountInferences :one
SELECT COUNT(*) FROM inference;

-- name: InferenceHolders :many
SELECT tenant, COUNT(*) AS records FROM inference GROUP BY tenant ORDER BY tenant;

-- name: InferencesFrom :many
-- A tenant's records from so many on, the newest first.
SELECT received_at, request_id FROM inference WHERE tenant = ?
ORDER BY received_at DESC, request_id DESC LIMIT ? OFFSET ?;

-- name: PruneTenantFrom :execrows
DELETE FROM inference
WHERE tenant = sqlc.arg(tenant) AND received_at <= sqlc.arg(received_at)
  AND (received_at < sqlc.arg(received_at) OR request_id <= sqlc.arg(request_id));
