-- +goose Up
-- Every writer numbers its commits in a row of its own, in the transaction
-- itself: when the reply to a COMMIT is lost, the row tells what became of it.
CREATE TABLE IF NOT EXISTS commit_mark (
  writer VARBINARY(64) NOT NULL PRIMARY KEY,
  number BIGINT NOT NULL,
  at     BIGINT NOT NULL,
  KEY commit_mark_age (at)
) ENGINE=InnoDB;
