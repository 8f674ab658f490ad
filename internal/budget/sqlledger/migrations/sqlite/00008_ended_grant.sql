-- +goose Up
-- Grants that ended: by their owner, or because the grantee did not want them.
CREATE TABLE ended_grant (
  owner    TEXT    NOT NULL,
  model    TEXT    NOT NULL,
  grantee  TEXT    NOT NULL CHECK (grantee <> owner),
  at       INTEGER NOT NULL,
  ended_at INTEGER NOT NULL,
  declined INTEGER NOT NULL CHECK (declined IN (0, 1)),
  PRIMARY KEY (owner, model, grantee)
) STRICT, WITHOUT ROWID;
