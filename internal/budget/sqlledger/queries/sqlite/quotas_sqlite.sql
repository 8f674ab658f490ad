-- name: EnsureTenant :execrows
INSERT INTO tenant_quota (tenant) VALUES (?) ON CONFLICT (tenant) DO NOTHING;

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

-- name: SetLimits :one
INSERT INTO tenant_quota (tenant, limits) VALUES (?, ?)
ON CONFLICT (tenant) DO UPDATE SET limits = excluded.limits
RETURNING *;

-- name: SetPool :one
INSERT INTO gpu_pool (pool, cap) VALUES (?, ?)
ON CONFLICT (pool) DO UPDATE SET cap = excluded.cap
RETURNING *;
