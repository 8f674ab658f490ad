-- name: InsertReservation :execlastid
INSERT INTO reservation (tenant, id, cost, priority, need, model_name, model_version, spec, spec_hash, pool, created_at, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: GetReservation :one
SELECT seq, tenant, id, revision, generation, cost, priority, need, model_name, model_version, spec, spec_hash,
  state, pool, node, held, submits, created_at, reserved_at, release_requested_at, released_at, expires_at, funded
FROM reservation WHERE tenant = ? AND id = ?;

-- name: CountSubmit :execrows
UPDATE reservation SET submits = submits + 1 WHERE tenant = ? AND id = ?;

-- name: LiveModelHolder :one
SELECT id FROM reservation
WHERE tenant = ? AND model_name = ? AND model_version = ? AND state IN ('waiting', 'reserved');

-- name: SetFirstNode :execrows
UPDATE reservation SET node = CASE WHEN node = '' THEN sqlc.arg(node) ELSE node END
WHERE tenant = sqlc.arg(tenant) AND id = sqlc.arg(id);

-- name: OwnedNames :many
SELECT DISTINCT tenant, model_name FROM reservation ORDER BY tenant, model_name;

-- name: SnapshotReservations :many
SELECT seq, tenant, id, revision, generation, cost, priority, state, pool, held,
       created_at, reserved_at, release_requested_at, released_at, expires_at, funded
FROM reservation ORDER BY seq;

-- name: CountRequests :one
SELECT COUNT(*) FROM reservation WHERE tenant = ?;

-- name: CountWaiting :one
SELECT COUNT(*) FROM reservation WHERE tenant = ? AND state = 'waiting';
