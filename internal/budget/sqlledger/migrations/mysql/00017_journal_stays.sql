-- +goose Up
-- The journal is append-only.
-- +goose StatementBegin
CREATE TRIGGER IF NOT EXISTS journal_stays BEFORE DELETE ON journal FOR EACH ROW
BEGIN
  SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the journal is append-only';
END;
-- +goose StatementEnd
