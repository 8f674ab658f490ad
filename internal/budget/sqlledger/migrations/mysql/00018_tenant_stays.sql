-- +goose Up
-- A tenant with requests stays: no foreign key says so here.
-- +goose StatementBegin
CREATE TRIGGER IF NOT EXISTS tenant_stays BEFORE DELETE ON tenant_quota FOR EACH ROW
BEGIN
  IF EXISTS (SELECT 1 FROM reservation r WHERE r.tenant = OLD.tenant) THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the tenant has requests';
  END IF;
END;
-- +goose StatementEnd
