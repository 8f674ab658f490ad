-- name: CreateKey :exec
INSERT INTO api_key (key_id, tenant, role, secret_hash, created_at, expires_at, revoked_at, last_used_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: ListKeys :many
SELECT * FROM api_key ORDER BY created_at, key_id;

-- name: GetKey :one
SELECT * FROM api_key WHERE key_id = ?;

-- name: RevokeKey :execrows
UPDATE api_key SET revoked_at = COALESCE(revoked_at, sqlc.arg(now)) WHERE key_id = sqlc.arg(key_id);

-- name: TouchKey :execrows
UPDATE api_key SET last_used_at = sqlc.arg(used)
WHERE key_id = sqlc.arg(key_id) AND (last_used_at IS NULL OR last_used_at < sqlc.arg(used));

-- name: ListGrants :many
SELECT * FROM model_grant ORDER BY owner, model, grantee;

-- A program of before grants anew without forgetting that it ended.
-- name: ListEndedGrants :many
SELECT * FROM ended_grant
WHERE NOT EXISTS (SELECT 1 FROM model_grant g WHERE g.owner = ended_grant.owner AND g.model = ended_grant.model AND g.grantee = ended_grant.grantee)
ORDER BY owner, model, grantee;

-- name: GrantedAt :one
SELECT at FROM model_grant WHERE owner = ? AND model = ? AND grantee = ?;

-- name: DeleteGrant :execrows
DELETE FROM model_grant WHERE owner = ? AND model = ? AND grantee = ?;

-- name: EndGrant :exec
INSERT INTO ended_grant (owner, model, grantee, at, ended_at, declined) VALUES (?, ?, ?, ?, ?, ?);

-- name: DeclineEndedGrant :execrows
UPDATE ended_grant SET declined = 1, ended_at = ? WHERE owner = ? AND model = ? AND grantee = ? AND declined = 0;

-- name: DropEndedGrant :execrows
DELETE FROM ended_grant WHERE owner = ? AND model = ? AND grantee = ? AND declined <= ?;

-- name: DeclinedAt :one
SELECT ended_at FROM ended_grant WHERE owner = ? AND model = ? AND grantee = ? AND declined = 1;

-- name: EndedGrantBeyond :many
SELECT ended_at FROM ended_grant WHERE owner = ? AND declined = 0 ORDER BY ended_at DESC LIMIT 1 OFFSET ?;

-- name: DropEndedGrantsUntil :execrows
DELETE FROM ended_grant WHERE owner = ? AND declined = 0 AND ended_at <= ?;

-- name: CreateSession :exec
INSERT INTO session (id_hash, key_id, csrf_token, created_at, expires_at) VALUES (?, ?, ?, ?, ?);

-- name: GetSession :one
SELECT * FROM session WHERE id_hash = sqlc.arg(id_hash) AND expires_at > sqlc.arg(now);

-- name: DeleteSession :execrows
DELETE FROM session WHERE id_hash = ?;

-- name: DropExpiredSessions :execrows
DELETE FROM session WHERE expires_at <= ?;

-- name: SessionsOf :many
SELECT created_at FROM session WHERE key_id = ? ORDER BY created_at DESC LIMIT ?;

-- name: DropSessionsUntil :execrows
DELETE FROM session WHERE key_id = ? AND created_at <= ?;

-- name: AppendAudit :exec
INSERT INTO audit (who, what, at, why, result, tenant, source) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: LatestAudit :many
SELECT * FROM audit ORDER BY seq DESC LIMIT ?;

-- name: AuditBefore :many
SELECT * FROM audit WHERE seq < ? ORDER BY seq DESC LIMIT ?;

-- name: TenantAuditFrom :many
SELECT seq FROM audit WHERE who LIKE 'tenant %' ORDER BY seq DESC LIMIT ? OFFSET ?;

-- name: OtherAuditFrom :many
SELECT seq FROM audit WHERE who NOT LIKE 'tenant %' ORDER BY seq DESC LIMIT ? OFFSET ?;

-- name: TenantAuditHolders :many
SELECT tenant, COUNT(*) AS held FROM audit WHERE who LIKE 'tenant %' GROUP BY tenant;

-- name: OneTenantAuditFrom :many
SELECT seq FROM audit WHERE who LIKE 'tenant %' AND tenant = ? ORDER BY seq DESC LIMIT ? OFFSET ?;

-- name: DropTenantAudit :execrows
DELETE FROM audit WHERE seq <= ? AND tenant = ? AND who LIKE 'tenant %';

-- name: DropOtherAudit :execrows
DELETE FROM audit WHERE seq <= ? AND who NOT LIKE 'tenant %';

-- name: CountGrants :one
SELECT COUNT(*) FROM model_grant WHERE owner = ?;

-- name: CountDeclined :one
SELECT COUNT(*) FROM ended_grant WHERE owner = ? AND declined = 1;
