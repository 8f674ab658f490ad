-- +goose Up
-- INV4 in the schema.
-- +goose StatementBegin
CREATE TRIGGER IF NOT EXISTS reservation_moves BEFORE UPDATE ON reservation FOR EACH ROW
BEGIN
  IF OLD.state <> NEW.state AND NOT (OLD.state = 'waiting' OR (OLD.state = 'reserved' AND NEW.state = 'released')) THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'a reservation only moves waiting to reserved to released, or waiting to expired or released';
  END IF;
END;
-- +goose StatementEnd
