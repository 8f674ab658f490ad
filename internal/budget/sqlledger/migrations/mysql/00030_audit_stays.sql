-- +goose Up
-- It is forgotten only up to the row that the retention has named before, in
-- the same transaction.
-- +goose StatementBegin
CREATE TRIGGER IF NOT EXISTS audit_stays BEFORE DELETE ON audit FOR EACH ROW
BEGIN
  IF OLD.seq > COALESCE((SELECT CAST(value AS SIGNED) FROM meta
      WHERE name = IF(OLD.who LIKE 'tenant %', 'audit-of-tenants-until', 'audit-of-others-until')), 0) THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the audit is kept until its retention';
  END IF;
END;
-- +goose StatementEnd
