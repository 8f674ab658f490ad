-- name: InsertTenant :execrows
INSERT INTO tenant_quota (tenant, engines, pools) VALUES (?, '[]', '[]');

-- name: SetQuota :exec
INSERT INTO tenant_quota (tenant, cap, engines, pools) VALUES (?, ?, '[]', '[]')
ON DUPLICATE KEY UPDATE cap = VALUES(cap);

-- name: SetEngines :exec
INSERT INTO tenant_quota (tenant, engines, pools) VALUES (?, ?, '[]')
ON DUPLICATE KEY UPDATE engines = VALUES(engines);

-- name: SetPools :exec
INSERT INTO tenant_quota (tenant, engines, pools) VALUES (?, '[]', ?)
ON DUPLICATE KEY UPDATE pools = VALUES(pools);

-- name: SetLimits :exec
INSERT INTO tenant_quota (tenant, engines, pools, limits) VALUES (?, '[]', '[]', ?)
ON DUPLICATE KEY UPDATE limits = VALUES(limits);

-- name: SetPool :exec
INSERT INTO gpu_pool (pool, cap) VALUES (?, ?)
ON DUPLICATE KEY UPDATE cap = VALUES(cap);
