-- name: GetTenant :one
SELECT * FROM tenant_quota WHERE tenant = ?;

-- name: ListTenants :many
SELECT * FROM tenant_quota ORDER BY tenant;

-- name: TakeTenantSlots :execrows
UPDATE tenant_quota SET used = used + sqlc.arg(slots)
WHERE tenant = sqlc.arg(tenant) AND used + sqlc.arg(slots) <= cap;

-- name: GiveTenantSlots :execrows
UPDATE tenant_quota SET used = used - sqlc.arg(slots) WHERE tenant = sqlc.arg(tenant);

-- name: GetPool :one
SELECT * FROM gpu_pool WHERE pool = ?;

-- name: ListPools :many
SELECT * FROM gpu_pool ORDER BY pool;

-- name: TakePoolSlots :execrows
UPDATE gpu_pool SET used = used + sqlc.arg(slots)
WHERE pool = sqlc.arg(pool) AND used + sqlc.arg(slots) <= cap;

-- name: GivePoolSlots :execrows
UPDATE gpu_pool SET used = used - sqlc.arg(slots) WHERE pool = sqlc.arg(pool);

-- name: SetWarm :execrows
UPDATE gpu_pool SET warm = sqlc.arg(warm) WHERE pool = sqlc.arg(pool);

-- name: KeepWarmDay :exec
UPDATE gpu_pool SET warm_day = sqlc.arg(warm_day) WHERE pool = sqlc.arg(pool);
