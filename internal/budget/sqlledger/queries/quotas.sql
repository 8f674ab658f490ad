-- name: EnsureTenant :execrows
INSERT INTO tenant_quota (tenant) VALUES (?) ON CONFLICT (tenant) DO NOTHING;

-- name: GetTenant :one
SELECT * FROM tenant_quota WHERE tenant = ?;

-- name: ListTenants :many
SELECT * FROM tenant_quota ORDER BY tenant;

-- name: SetQuota :one
INSERT INTO tenant_quota (tenant, cap) VALUES (?, ?)
ON CONFLICT (tenant) DO UPDATE SET cap = excluded.cap
RETURNING *;

-- name: SetEngines :one
INSERT INTO tenant_quota (tenant, engines) VALUES (?, ?)
ON CONFLICT (tenant) DO UPDATE SET engines = excluded.engines
RETURNING *;

-- name: SetPools :one
INSERT INTO tenant_quota (tenant, pools) VALUES (?, ?)
ON CONFLICT (tenant) DO UPDATE SET pools = excluded.pools
RETURNING *;

-- name: TakeTenantSlots :execrows
UPDATE tenant_quota SET used = used + sqlc.arg(slots)
WHERE tenant = sqlc.arg(tenant) AND used + sqlc.arg(slots) <= cap;

-- name: GiveTenantSlots :execrows
UPDATE tenant_quota SET used = used - sqlc.arg(slots) WHERE tenant = sqlc.arg(tenant);

-- name: GetPool :one
SELECT * FROM gpu_pool WHERE pool = ?;

-- name: ListPools :many
SELECT * FROM gpu_pool ORDER BY pool;

-- name: SetPool :one
INSERT INTO gpu_pool (pool, cap) VALUES (?, ?)
ON CONFLICT (pool) DO UPDATE SET cap = excluded.cap
RETURNING *;

-- name: TakePoolSlots :execrows
UPDATE gpu_pool SET used = used + sqlc.arg(slots)
WHERE pool = sqlc.arg(pool) AND used + sqlc.arg(slots) <= cap;

-- name: GivePoolSlots :execrows
UPDATE gpu_pool SET used = used - sqlc.arg(slots) WHERE pool = sqlc.arg(pool);
