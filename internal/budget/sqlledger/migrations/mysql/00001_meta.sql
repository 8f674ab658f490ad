-- +goose Up
-- MySQL and MariaDB commit after every DDL statement: each file has one, and
-- each may run again, so that a migration that was killed half-way goes on
-- where it stopped. Names are VARBINARY: they compare byte for byte, without
-- padding. Long texts are LONGBLOB, models MEDIUMBLOB. Times are microseconds
-- since 1970 in UTC, NULL means "not yet".
CREATE TABLE IF NOT EXISTS meta (
  name  VARBINARY(64)  NOT NULL PRIMARY KEY,
  value VARBINARY(255) NOT NULL
) ENGINE=InnoDB;
