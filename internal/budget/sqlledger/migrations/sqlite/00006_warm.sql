-- +goose Up
-- warm is what a pool keeps ready for models that nobody calls, warm_day what
-- that cost today; {} means nothing.
ALTER TABLE gpu_pool ADD COLUMN warm TEXT NOT NULL DEFAULT '{}'
  CHECK (CASE WHEN json_valid(warm) THEN json_type(warm) = 'object' ELSE 0 END);
ALTER TABLE gpu_pool ADD COLUMN warm_day TEXT NOT NULL DEFAULT '{}'
  CHECK (CASE WHEN json_valid(warm_day) THEN json_type(warm_day) = 'object' ELSE 0 END);
