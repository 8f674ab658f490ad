-- +goose Up
-- Account 3's evidence. It refers to reservations by name only: traffic may
-- be recorded late, and never fails because of the ledger.

CREATE TABLE inference (
  request_id         TEXT    NOT NULL PRIMARY KEY,
  client_request_id  TEXT    NOT NULL,
  tenant             TEXT    NOT NULL,
  key_id             TEXT    NOT NULL,
  owner              TEXT    NOT NULL,
  model              TEXT    NOT NULL,
  version            TEXT    NOT NULL,
  reservation_id     TEXT    NOT NULL,
  endpoint_uid       TEXT    NOT NULL,
  object_uid         TEXT    NOT NULL,
  path               TEXT    NOT NULL,
  stream             INTEGER NOT NULL CHECK (stream IN (0, 1)),
  status             INTEGER NOT NULL,
  outcome            TEXT    NOT NULL,
  error              TEXT    NOT NULL,
  received_at        INTEGER NOT NULL,
  queued_us          INTEGER NOT NULL,
  sent_at            INTEGER,
  first_byte_at      INTEGER,
  first_content_at   INTEGER,
  last_byte_at       INTEGER,
  done_at            INTEGER,
  prompt_tokens      INTEGER NOT NULL,
  completion_tokens  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX inference_of ON inference (owner, reservation_id, received_at);
CREATE INDEX inference_age ON inference (received_at);

-- tenant and id name the reservation; the caller may be a grantee.
CREATE TABLE first_chunk (
  tenant               TEXT    NOT NULL,
  id                   TEXT    NOT NULL,
  first_request_id     TEXT    NOT NULL,
  first_endpoint_uid   TEXT    NOT NULL,
  first_caller         TEXT    NOT NULL,
  first_sent_at        INTEGER,
  first_byte_at        INTEGER,
  first_at             INTEGER NOT NULL,
  first_done_at        INTEGER,
  latest_request_id    TEXT    NOT NULL,
  latest_endpoint_uid  TEXT    NOT NULL,
  latest_caller        TEXT    NOT NULL,
  latest_sent_at       INTEGER,
  latest_byte_at       INTEGER,
  latest_at            INTEGER NOT NULL,
  latest_done_at       INTEGER,
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
