-- name: PutGrant :exec
INSERT INTO model_grant (owner, model, grantee, at) VALUES (?, ?, ?, ?)
ON CONFLICT (owner, model, grantee) DO NOTHING;
