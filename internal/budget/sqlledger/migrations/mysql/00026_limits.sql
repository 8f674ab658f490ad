-- +goose Up
-- limits are what a tenant's callers may use of the gateways, and the highest
-- priority and class that it may ask for; {} means none. A column of MySQL's
-- TEXT types cannot have a plain default.
SET @statement = IF((SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'tenant_quota' AND column_name = 'limits') > 0, 'DO 0',
  'ALTER TABLE tenant_quota
     ADD COLUMN limits VARCHAR(4096) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ''{}'',
     ADD CONSTRAINT limits_are_an_object CHECK (JSON_TYPE(limits) = ''OBJECT'')');
PREPARE migration FROM @statement;
EXECUTE migration;
DEALLOCATE PREPARE migration;
