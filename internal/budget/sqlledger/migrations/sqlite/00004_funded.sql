-- +goose Up
-- funded is how many replicas may run; held pays for at least as many, and for
-- more while a shrink has not been given back.
ALTER TABLE reservation ADD COLUMN funded INTEGER NOT NULL DEFAULT 0 CHECK (funded >= 0 AND funded * cost <= held);
UPDATE reservation SET funded = held / cost WHERE state = 'reserved';

-- What a CHECK over rows that were there before could not say.
-- +goose StatementBegin
CREATE TRIGGER reservation_funds BEFORE UPDATE OF state, funded ON reservation
  WHEN (NEW.state = 'reserved') <> (NEW.funded > 0)
BEGIN
  SELECT RAISE(ABORT, 'a reservation has funded replicas if, and only if, it is reserved');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER reservation_begins_unfunded BEFORE INSERT ON reservation
  WHEN (NEW.state = 'reserved') <> (NEW.funded > 0)
BEGIN
  SELECT RAISE(ABORT, 'a reservation has funded replicas if, and only if, it is reserved');
END;
-- +goose StatementEnd

-- Whose shrink waits for its credit.
CREATE INDEX reservation_shrinking ON reservation (seq)
  WHERE state = 'reserved' AND release_requested_at IS NULL AND held > cost * funded;
