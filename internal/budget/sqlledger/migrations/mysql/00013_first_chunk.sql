-- +goose Up
-- tenant and id name the reservation; the caller may be a grantee.
CREATE TABLE IF NOT EXISTS first_chunk (
  tenant               VARBINARY(255) NOT NULL,
  id                   VARBINARY(255) NOT NULL,
  first_request_id     VARBINARY(255) NOT NULL,
  first_endpoint_uid   VARBINARY(255) NOT NULL,
  first_caller         VARBINARY(255) NOT NULL,
  first_sent_at        BIGINT,
  first_byte_at        BIGINT,
  first_at             BIGINT NOT NULL,
  first_done_at        BIGINT,
  latest_request_id    VARBINARY(255) NOT NULL,
  latest_endpoint_uid  VARBINARY(255) NOT NULL,
  latest_caller        VARBINARY(255) NOT NULL,
  latest_sent_at       BIGINT,
  latest_byte_at       BIGINT,
  latest_at            BIGINT NOT NULL,
  latest_done_at       BIGINT,
  PRIMARY KEY (tenant, id)
) ENGINE=InnoDB;
