-- name: PutGrant :exec
INSERT INTO model_grant (owner, model, grantee, at) VALUES (?, ?, ?, ?)
ON DUPLICATE KEY UPDATE owner = VALUES(owner);
