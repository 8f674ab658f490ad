-- name: QueueAfter :many
-- The rows of one priority behind seq in one tenant's queue, without those that
-- change nothing in the walk. Those of lower priorities are QueueBelow's: in one
-- query, no index begins behind seq.
SELECT seq, tenant, id, priority, need, pool, created_at, expires_at
FROM reservation
WHERE state = 'waiting' AND tenant = sqlc.arg(tenant) AND priority = sqlc.arg(priority) AND seq > sqlc.arg(seq)
  AND (need <= sqlc.arg(fits) OR created_at <= sqlc.arg(old) AND need <= sqlc.arg(most))
ORDER BY seq LIMIT ?;

-- name: QueueBelow :many
-- The rows below priority in one tenant's queue, with the same ones left out.
SELECT seq, tenant, id, priority, need, pool, created_at, expires_at
FROM reservation
WHERE state = 'waiting' AND tenant = sqlc.arg(tenant) AND priority < sqlc.arg(priority)
  AND (need <= sqlc.arg(fits) OR created_at <= sqlc.arg(old) AND need <= sqlc.arg(most))
ORDER BY priority DESC, seq LIMIT ?;

-- name: FirstWaiting :many
-- The head of one tenant's own queue.
SELECT seq, tenant, id, revision, generation, cost, priority, need, model_name, model_version, spec, spec_hash,
  state, pool, node, held, submits, created_at, reserved_at, release_requested_at, released_at, expires_at, funded
FROM reservation
WHERE tenant = sqlc.arg(tenant) AND state = 'waiting'
ORDER BY priority DESC, seq LIMIT ?;
