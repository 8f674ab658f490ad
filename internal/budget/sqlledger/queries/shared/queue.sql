-- name: OpenHeads :many
-- The head of the queue of every tenant that has free slots, in no particular
-- order. A tenant without free slots cannot hold up others, so the admission
-- walk need not see it. Nor does it need those above their tenant's cap, nor the
-- young ones that neither their tenant's free slots nor any pool's (fits) can
-- take: they neither get in nor keep slots.
SELECT r.seq, r.tenant, r.id, r.priority, r.need, r.pool, r.created_at, r.expires_at
FROM tenant_quota q JOIN reservation r ON r.seq = (
  SELECT x.seq FROM reservation x
  WHERE x.tenant = q.tenant AND x.state = 'waiting'
    AND (x.need <= sqlc.arg(fits) AND x.need <= q.cap - q.used OR x.created_at <= sqlc.arg(old) AND x.need <= q.cap)
  ORDER BY x.priority DESC, x.seq LIMIT 1)
WHERE q.cap > q.used;

-- name: WholeQueue :many
-- The slow form, of all tenants: for explaining, and as the walk's checker.
SELECT seq, tenant, id, priority, need, pool, created_at, expires_at
FROM reservation WHERE state = 'waiting' ORDER BY priority DESC, seq;

-- name: CountsWaiting :many
-- How many requests of each tenant wait; zero for most.
SELECT q.tenant, (SELECT COUNT(*) FROM reservation x WHERE x.tenant = q.tenant AND x.state = 'waiting') AS waiting
FROM tenant_quota q;
