-- name: GetInference :one
SELECT * FROM inference WHERE request_id = ?;

-- name: InferencesOf :many
SELECT * FROM inference WHERE owner = ? AND reservation_id = ?
ORDER BY received_at DESC, request_id DESC LIMIT ?;

-- name: GetChunks :one
SELECT * FROM first_chunk WHERE tenant = ? AND id = ?;

-- name: PruneByAge :execrows
DELETE FROM inference WHERE received_at < ?;
