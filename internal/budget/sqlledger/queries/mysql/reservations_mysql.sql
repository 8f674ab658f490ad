-- name: ListReservations :many
SELECT seq, tenant, id, revision, generation, cost, priority, need, model_name, model_version, spec, spec_hash,
  state, pool, node, held, submits, created_at, reserved_at, release_requested_at, released_at, expires_at, funded
FROM reservation
WHERE seq > sqlc.arg(after_seq)
  AND (CAST(sqlc.arg(state) AS CHAR) = '' OR state = sqlc.arg(state))
  AND (CAST(sqlc.arg(model) AS CHAR) = '' OR model_name = sqlc.arg(model))
ORDER BY seq LIMIT ?;

-- name: ListTenantReservations :many
SELECT seq, tenant, id, revision, generation, cost, priority, need, model_name, model_version, spec, spec_hash,
  state, pool, node, held, submits, created_at, reserved_at, release_requested_at, released_at, expires_at, funded
FROM reservation
WHERE tenant = sqlc.arg(tenant) AND seq > sqlc.arg(after_seq)
  AND (CAST(sqlc.arg(state) AS CHAR) = '' OR state = sqlc.arg(state))
  AND (CAST(sqlc.arg(model) AS CHAR) = '' OR model_name = sqlc.arg(model))
ORDER BY seq LIMIT ?;

-- name: ListReleasing :many
SELECT seq, tenant, id, revision, generation, cost, priority, need, model_name, model_version, spec, spec_hash,
  state, pool, node, held, submits, created_at, reserved_at, release_requested_at, released_at, expires_at, funded
FROM reservation
WHERE releasing = 1 AND seq > sqlc.arg(after_seq)
  AND (CAST(sqlc.arg(tenant) AS CHAR) = '' OR tenant = sqlc.arg(tenant))
  AND (CAST(sqlc.arg(model) AS CHAR) = '' OR model_name = sqlc.arg(model))
ORDER BY seq LIMIT ?;

-- name: ListShrinking :many
SELECT seq, tenant, id, revision, generation, cost, priority, need, model_name, model_version, spec, spec_hash,
  state, pool, node, held, submits, created_at, reserved_at, release_requested_at, released_at, expires_at, funded
FROM reservation
WHERE shrinking = 1 AND seq > sqlc.arg(after_seq)
  AND (CAST(sqlc.arg(tenant) AS CHAR) = '' OR tenant = sqlc.arg(tenant))
  AND (CAST(sqlc.arg(model) AS CHAR) = '' OR model_name = sqlc.arg(model))
ORDER BY seq LIMIT ?;

-- name: ReservationsBySeq :many
SELECT seq, tenant, id, revision, generation, cost, priority, need, model_name, model_version, spec, spec_hash,
  state, pool, node, held, submits, created_at, reserved_at, release_requested_at, released_at, expires_at, funded
FROM reservation
WHERE seq IN (sqlc.slice(seqs)) ORDER BY seq;

-- name: ReserveReservations :execrows
UPDATE reservation
SET state = 'reserved', revision = revision + 1, held = need, funded = need DIV cost, reserved_at = sqlc.arg(now)
WHERE seq IN (sqlc.slice(seqs)) AND state = 'waiting';

-- name: OverdueReservations :many
SELECT seq FROM reservation WHERE state = 'waiting' AND expires_at <= sqlc.arg(now) ORDER BY seq FOR UPDATE;

-- name: ExpireReservations :execrows
UPDATE reservation SET state = 'expired', revision = revision + 1
WHERE seq IN (sqlc.slice(seqs)) AND state = 'waiting';

-- name: CancelReservation :execrows
UPDATE reservation
SET state = 'released', revision = revision + 1, release_requested_at = sqlc.arg(now), released_at = sqlc.arg(now)
WHERE tenant = sqlc.arg(tenant) AND id = sqlc.arg(id) AND state = 'waiting';

-- name: AskRelease :execrows
UPDATE reservation SET revision = revision + 1, release_requested_at = sqlc.arg(now)
WHERE tenant = sqlc.arg(tenant) AND id = sqlc.arg(id) AND state = 'reserved' AND release_requested_at IS NULL;

-- name: ReleaseReservation :execrows
UPDATE reservation SET state = 'released', revision = revision + 1, held = 0, funded = 0, released_at = sqlc.arg(now)
WHERE tenant = sqlc.arg(tenant) AND id = sqlc.arg(id) AND state = 'reserved' AND revision = sqlc.arg(revision);

-- name: CheckInsert :one
-- What would refuse a new request: asked first, because a refused insert
-- takes an arrival number that nobody gets.
SELECT
  EXISTS (SELECT 1 FROM tenant_quota q WHERE q.tenant = sqlc.arg(tenant)) AS has_tenant,
  EXISTS (SELECT 1 FROM gpu_pool p WHERE p.pool = sqlc.arg(pool)) AS has_pool,
  EXISTS (SELECT 1 FROM reservation r WHERE r.tenant = sqlc.arg(tenant) AND r.id = sqlc.arg(id)) AS has_id,
  EXISTS (SELECT 1 FROM reservation r WHERE r.tenant = sqlc.arg(tenant) AND r.model_name = sqlc.arg(model_name)
    AND r.model_version = sqlc.arg(model_version) AND r.live = 1) AS has_model;

-- name: AmendReservation :execrows
-- The next generation: waiting rows hold and fund nothing before and after.
UPDATE reservation
SET revision = revision + 1, generation = generation + 1, spec = sqlc.arg(spec), need = sqlc.arg(need),
  held = held + sqlc.arg(take), funded = sqlc.arg(funded)
WHERE tenant = sqlc.arg(tenant) AND id = sqlc.arg(id) AND revision = sqlc.arg(revision);

-- name: CreditShrunk :execrows
UPDATE reservation SET revision = revision + 1, held = cost * funded
WHERE tenant = sqlc.arg(tenant) AND id = sqlc.arg(id) AND state = 'reserved' AND revision = sqlc.arg(revision);
