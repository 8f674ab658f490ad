-- +goose Up
-- tenant is whose things were changed, source the address that asked for it;
-- empty where it is not known, as in every row from before.
SET @statement = IF((SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'audit' AND column_name = 'tenant') > 0, 'DO 0',
  'ALTER TABLE audit
     ADD COLUMN tenant VARBINARY(255) NOT NULL DEFAULT '''',
     ADD COLUMN source VARBINARY(255) NOT NULL DEFAULT ''''');
PREPARE migration FROM @statement;
EXECUTE migration;
DEALLOCATE PREPARE migration;
