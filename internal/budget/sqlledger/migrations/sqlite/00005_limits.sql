-- +goose Up
-- limits are what a tenant's callers may use of the gateways, and the highest
-- priority and class that it may ask for; {} means none.
ALTER TABLE tenant_quota ADD COLUMN limits TEXT NOT NULL DEFAULT '{}'
  CHECK (CASE WHEN json_valid(limits) THEN json_type(limits) = 'object' ELSE 0 END);
