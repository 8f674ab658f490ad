-- name: LeaseIntent :one
UPDATE outbox SET lease_owner = sqlc.arg(owner), lease_until = sqlc.arg(until), attempts = attempts + 1
WHERE seq = sqlc.arg(seq)
RETURNING *;

-- name: DueIntents :many
-- One row per reservation at most: nothing while another of its rows is
-- leased; an apply only as the oldest open row and never beside an open
-- delete, which supersedes it.
SELECT * FROM outbox o
WHERE o.delivered_at IS NULL AND o.next_attempt_at <= sqlc.arg(now)
  AND (o.lease_until IS NULL OR o.lease_until <= sqlc.arg(now))
  AND NOT EXISTS (
    SELECT 1 FROM outbox p
    WHERE p.tenant = o.tenant AND p.id = o.id AND p.delivered_at IS NULL AND p.seq <> o.seq
      AND (p.lease_until > sqlc.arg(now)
        OR (o.op = 'apply' AND (p.op = 'delete' OR p.seq < o.seq))))
ORDER BY o.next_attempt_at, o.seq LIMIT sqlc.arg(max_rows);
