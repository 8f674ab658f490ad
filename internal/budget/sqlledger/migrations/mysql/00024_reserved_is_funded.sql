-- +goose Up
-- shrinking marks whose shrink waits for its credit, as releasing does.
SET @statement = IF((SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'reservation' AND column_name = 'shrinking') > 0, 'DO 0',
  'ALTER TABLE reservation
     ADD COLUMN shrinking TINYINT GENERATED ALWAYS AS
       (CASE WHEN state = ''reserved'' AND release_requested_at IS NULL AND held > cost * funded THEN 1 END) STORED,
     ADD KEY reservation_shrinking (shrinking, seq),
     ADD CONSTRAINT reserved_is_funded CHECK ((state = ''reserved'') = (funded > 0))');
PREPARE migration FROM @statement;
EXECUTE migration;
DEALLOCATE PREPARE migration;
