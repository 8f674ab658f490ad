-- +goose Up
CREATE TABLE IF NOT EXISTS api_key (
  key_id       VARBINARY(255) NOT NULL PRIMARY KEY,
  tenant       VARBINARY(255) NOT NULL,
  role         VARBINARY(16) NOT NULL CHECK (role IN ('tenant', 'viewer', 'admin')),
  secret_hash  BINARY(32) NOT NULL,
  created_at   BIGINT NOT NULL,
  expires_at   BIGINT,
  revoked_at   BIGINT,
  last_used_at BIGINT,
  CONSTRAINT tenant_has_name CHECK ((role = 'tenant') = (tenant <> ''))
) ENGINE=InnoDB;
