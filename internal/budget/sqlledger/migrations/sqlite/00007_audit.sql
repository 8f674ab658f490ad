-- +goose Up
-- tenant is whose things were changed, source the address that asked for it;
-- empty where it is not known, as in every row from before.
ALTER TABLE audit ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN source TEXT NOT NULL DEFAULT '';

-- What was done is never told otherwise, and forgotten only up to the row that
-- the retention has named before, in the same transaction.
-- +goose StatementBegin
CREATE TRIGGER audit_keeps BEFORE UPDATE ON audit BEGIN
  SELECT RAISE(ABORT, 'the audit is append-only');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_stays BEFORE DELETE ON audit
WHEN OLD.seq > COALESCE((SELECT CAST(value AS INTEGER) FROM meta
  WHERE name = CASE WHEN OLD.who LIKE 'tenant %' THEN 'audit-of-tenants-until' ELSE 'audit-of-others-until' END), 0)
BEGIN
  SELECT RAISE(ABORT, 'the audit is kept until its retention');
END;
-- +goose StatementEnd
