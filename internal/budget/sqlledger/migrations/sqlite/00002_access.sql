-- +goose Up
-- Who may do what, and who did.

CREATE TABLE api_key (
  key_id       TEXT    NOT NULL PRIMARY KEY,
  tenant       TEXT    NOT NULL,
  role         TEXT    NOT NULL CHECK (role IN ('tenant', 'viewer', 'admin')),
  secret_hash  BLOB    NOT NULL CHECK (length(secret_hash) = 32),
  created_at   INTEGER NOT NULL,
  expires_at   INTEGER,
  revoked_at   INTEGER,
  last_used_at INTEGER,
  CHECK ((role = 'tenant') = (tenant <> ''))
) STRICT, WITHOUT ROWID;

CREATE TABLE model_grant (
  owner   TEXT    NOT NULL,
  model   TEXT    NOT NULL,
  grantee TEXT    NOT NULL CHECK (grantee <> owner),
  at      INTEGER NOT NULL,
  PRIMARY KEY (owner, model, grantee)
) STRICT, WITHOUT ROWID;

CREATE TABLE audit (
  seq    INTEGER PRIMARY KEY AUTOINCREMENT,
  who    TEXT    NOT NULL,
  what   TEXT    NOT NULL,
  at     INTEGER NOT NULL,
  why    TEXT    NOT NULL,
  result TEXT    NOT NULL
) STRICT;

CREATE TABLE session (
  id_hash    BLOB    NOT NULL PRIMARY KEY CHECK (length(id_hash) = 32),
  key_id     TEXT    NOT NULL REFERENCES api_key (key_id),
  csrf_token TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX session_expiry ON session (expires_at);
