-- +goose Up
-- cap is not bounded by used: an admin may lower it below what is held.
CREATE TABLE IF NOT EXISTS tenant_quota (
  tenant  VARBINARY(255) NOT NULL PRIMARY KEY CHECK (tenant <> ''),
  cap     BIGINT NOT NULL DEFAULT 0 CHECK (cap >= 0),
  used    BIGINT NOT NULL DEFAULT 0 CHECK (used >= 0),
  engines MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL CHECK (JSON_TYPE(engines) = 'ARRAY'),
  pools   MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL CHECK (JSON_TYPE(pools) = 'ARRAY')
) ENGINE=InnoDB;
