-- +goose Up
-- How many of a writer's transactions changed something that others look at:
-- other processes read these numbers to learn that they should look again.
CREATE TABLE IF NOT EXISTS commit_news (
  writer  VARBINARY(64) NOT NULL PRIMARY KEY,
  changes BIGINT NOT NULL,
  at      BIGINT NOT NULL,
  KEY commit_news_age (at)
) ENGINE=InnoDB;
