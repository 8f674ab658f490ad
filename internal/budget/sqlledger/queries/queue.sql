-- name: OpenHeads :many
-- The head of the queue of every tenant that has free slots, in no particular
-- order. A tenant without free slots cannot hold up others, so the admission
-- walk need not see it.
SELECT r.seq, r.tenant, r.id, r.priority, r.need, r.pool, r.created_at, r.expires_at
FROM tenant_quota q JOIN reservation r ON r.seq = (
  SELECT x.seq FROM reservation x
  WHERE x.tenant = q.tenant AND x.state = 'waiting'
  ORDER BY x.priority DESC, x.seq LIMIT 1)
WHERE q.cap > q.used;

-- name: QueueAfter :many
-- The rows behind (priority, seq) in one tenant's queue.
SELECT seq, tenant, id, priority, need, pool, created_at, expires_at
FROM reservation
WHERE state = 'waiting' AND tenant = sqlc.arg(tenant) AND priority <= sqlc.arg(priority)
  AND (priority < sqlc.arg(priority) OR seq > sqlc.arg(seq))
ORDER BY priority DESC, seq LIMIT sqlc.arg(max_rows);

-- name: WholeQueue :many
-- The slow form, of all tenants: for explaining, and as the walk's checker.
SELECT seq, tenant, id, priority, need, pool, created_at, expires_at
FROM reservation WHERE state = 'waiting' ORDER BY priority DESC, seq;
