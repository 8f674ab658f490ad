-- name: ListReservations :many
SELECT * FROM reservation
WHERE seq > sqlc.arg(after_seq)
  AND (CAST(sqlc.arg(state) AS TEXT) = '' OR state = sqlc.arg(state))
  AND (CAST(sqlc.arg(model) AS TEXT) = '' OR model_name = sqlc.arg(model))
ORDER BY seq LIMIT sqlc.arg(max_rows);

-- name: ListTenantReservations :many
SELECT * FROM reservation
WHERE tenant = sqlc.arg(tenant) AND seq > sqlc.arg(after_seq)
  AND (CAST(sqlc.arg(state) AS TEXT) = '' OR state = sqlc.arg(state))
  AND (CAST(sqlc.arg(model) AS TEXT) = '' OR model_name = sqlc.arg(model))
ORDER BY seq LIMIT sqlc.arg(max_rows);

-- name: ListReleasing :many
SELECT * FROM reservation
WHERE state = 'reserved' AND release_requested_at IS NOT NULL AND seq > sqlc.arg(after_seq)
  AND (CAST(sqlc.arg(tenant) AS TEXT) = '' OR tenant = sqlc.arg(tenant))
  AND (CAST(sqlc.arg(model) AS TEXT) = '' OR model_name = sqlc.arg(model))
ORDER BY seq LIMIT sqlc.arg(max_rows);

-- name: ListShrinking :many
SELECT * FROM reservation
WHERE state = 'reserved' AND release_requested_at IS NULL AND held > cost * funded AND seq > sqlc.arg(after_seq)
  AND (CAST(sqlc.arg(tenant) AS TEXT) = '' OR tenant = sqlc.arg(tenant))
  AND (CAST(sqlc.arg(model) AS TEXT) = '' OR model_name = sqlc.arg(model))
ORDER BY seq LIMIT sqlc.arg(max_rows);

-- name: ReserveReservation :one
UPDATE reservation
SET state = 'reserved', revision = revision + 1, held = need, funded = need / cost, reserved_at = sqlc.arg(now)
WHERE seq = sqlc.arg(seq) AND state = 'waiting'
RETURNING *;

-- name: ExpireReservations :many
UPDATE reservation SET state = 'expired', revision = revision + 1
WHERE state = 'waiting' AND expires_at <= sqlc.arg(now)
RETURNING *;

-- name: CancelReservation :one
UPDATE reservation
SET state = 'released', revision = revision + 1, release_requested_at = sqlc.arg(now), released_at = sqlc.arg(now)
WHERE tenant = sqlc.arg(tenant) AND id = sqlc.arg(id) AND state = 'waiting'
RETURNING *;

-- name: AskRelease :one
UPDATE reservation SET revision = revision + 1, release_requested_at = sqlc.arg(now)
WHERE tenant = sqlc.arg(tenant) AND id = sqlc.arg(id) AND state = 'reserved' AND release_requested_at IS NULL
RETURNING *;

-- name: ReleaseReservation :one
UPDATE reservation SET state = 'released', revision = revision + 1, held = 0, funded = 0, released_at = sqlc.arg(now)
WHERE tenant = sqlc.arg(tenant) AND id = sqlc.arg(id) AND state = 'reserved' AND revision = sqlc.arg(revision)
RETURNING *;

-- name: AmendReservation :one
-- The next generation: waiting rows hold and fund nothing before and after.
UPDATE reservation
SET revision = revision + 1, generation = generation + 1, spec = sqlc.arg(spec), need = sqlc.arg(need),
  held = held + sqlc.arg(take), funded = sqlc.arg(funded)
WHERE tenant = sqlc.arg(tenant) AND id = sqlc.arg(id) AND revision = sqlc.arg(revision)
RETURNING *;

-- name: CreditShrunk :one
UPDATE reservation SET revision = revision + 1, held = cost * funded
WHERE tenant = sqlc.arg(tenant) AND id = sqlc.arg(id) AND state = 'reserved' AND revision = sqlc.arg(revision)
RETURNING *;
