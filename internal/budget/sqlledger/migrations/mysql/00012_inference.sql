-- +goose Up
-- Account 3's evidence. It refers to reservations by name only: traffic may
-- be recorded late, and never fails because of the ledger.
CREATE TABLE IF NOT EXISTS inference (
  request_id         VARBINARY(255) NOT NULL PRIMARY KEY,
  client_request_id  LONGBLOB NOT NULL,
  tenant             VARBINARY(255) NOT NULL,
  key_id             VARBINARY(255) NOT NULL,
  owner              VARBINARY(255) NOT NULL,
  model              LONGBLOB NOT NULL,
  version            LONGBLOB NOT NULL,
  reservation_id     VARBINARY(255) NOT NULL,
  endpoint_uid       VARBINARY(255) NOT NULL,
  object_uid         VARBINARY(255) NOT NULL,
  path               LONGBLOB NOT NULL,
  stream             BIGINT NOT NULL CHECK (stream IN (0, 1)),
  status             BIGINT NOT NULL,
  outcome            VARBINARY(64) NOT NULL,
  error              LONGBLOB NOT NULL,
  received_at        BIGINT NOT NULL,
  queued_us          BIGINT NOT NULL,
  sent_at            BIGINT,
  first_byte_at      BIGINT,
  first_content_at   BIGINT,
  last_byte_at       BIGINT,
  done_at            BIGINT,
  prompt_tokens      BIGINT NOT NULL,
  completion_tokens  BIGINT NOT NULL,
  KEY inference_of (owner, reservation_id, received_at, request_id),
  KEY inference_age (received_at, request_id)
) ENGINE=InnoDB;
