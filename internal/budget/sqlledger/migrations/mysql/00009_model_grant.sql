-- +goose Up
CREATE TABLE IF NOT EXISTS model_grant (
  owner   VARBINARY(255) NOT NULL,
  model   VARBINARY(255) NOT NULL,
  grantee VARBINARY(255) NOT NULL,
  at      BIGINT NOT NULL,
  PRIMARY KEY (owner, model, grantee),
  CONSTRAINT grantee_is_another CHECK (grantee <> owner)
) ENGINE=InnoDB;
