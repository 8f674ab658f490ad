-- +goose Up
-- A pool with requests stays: no foreign key says so here.
-- +goose StatementBegin
CREATE TRIGGER IF NOT EXISTS pool_stays BEFORE DELETE ON gpu_pool FOR EACH ROW
BEGIN
  IF EXISTS (SELECT 1 FROM reservation r WHERE r.pool = OLD.pool) THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the pool has requests';
  END IF;
END;
-- +goose StatementEnd
