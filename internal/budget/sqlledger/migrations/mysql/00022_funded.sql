-- +goose Up
-- funded is how many replicas may run; held pays for at least as many, and for
-- more while a shrink has not been given back. MySQL knows no ADD COLUMN IF
-- NOT EXISTS, and a start after a kill must find this done.
SET @statement = IF((SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'reservation' AND column_name = 'funded') > 0, 'DO 0',
  'ALTER TABLE reservation
     ADD COLUMN funded BIGINT NOT NULL DEFAULT 0,
     ADD CONSTRAINT funded_is_paid CHECK (funded >= 0 AND funded * cost <= held)');
PREPARE migration FROM @statement;
EXECUTE migration;
DEALLOCATE PREPARE migration;
