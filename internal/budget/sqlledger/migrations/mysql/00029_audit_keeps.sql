-- +goose Up
-- What was done is never told otherwise.
-- +goose StatementBegin
CREATE TRIGGER IF NOT EXISTS audit_keeps BEFORE UPDATE ON audit FOR EACH ROW
BEGIN
  SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the audit is append-only';
END;
-- +goose StatementEnd
