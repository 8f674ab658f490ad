-- +goose Up
-- warm is what a pool keeps ready for models that nobody calls, warm_day what
-- that cost today; {} means nothing.
SET @statement = IF((SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'gpu_pool' AND column_name = 'warm') > 0, 'DO 0',
  'ALTER TABLE gpu_pool
     ADD COLUMN warm VARCHAR(6000) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ''{}'',
     ADD COLUMN warm_day VARCHAR(6000) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ''{}'',
     ADD CONSTRAINT warm_is_an_object CHECK (JSON_TYPE(warm) = ''OBJECT''),
     ADD CONSTRAINT warm_day_is_an_object CHECK (JSON_TYPE(warm_day) = ''OBJECT'')');
PREPARE migration FROM @statement;
EXECUTE migration;
DEALLOCATE PREPARE migration;
