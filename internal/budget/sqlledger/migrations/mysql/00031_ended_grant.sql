-- +goose Up
-- Grants that ended: by their owner, or because the grantee did not want them.
CREATE TABLE IF NOT EXISTS ended_grant (
  owner    VARBINARY(255) NOT NULL,
  model    VARBINARY(255) NOT NULL,
  grantee  VARBINARY(255) NOT NULL,
  at       BIGINT NOT NULL,
  ended_at BIGINT NOT NULL,
  declined BIGINT NOT NULL,
  PRIMARY KEY (owner, model, grantee),
  CONSTRAINT ended_grantee_is_another CHECK (grantee <> owner),
  CONSTRAINT declined_or_not CHECK (declined IN (0, 1))
) ENGINE=InnoDB;
