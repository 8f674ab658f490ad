-- +goose Up
-- payload is the model to run; funded is how many replicas are paid for.
CREATE TABLE IF NOT EXISTS outbox (
  seq             BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  tenant          VARBINARY(255) NOT NULL,
  id              VARBINARY(255) NOT NULL,
  op              VARBINARY(16) NOT NULL CHECK (op IN ('apply', 'delete')),
  generation      BIGINT NOT NULL,
  payload         MEDIUMBLOB NOT NULL,
  funded          BIGINT NOT NULL CHECK (funded >= 0),
  attempts        BIGINT NOT NULL DEFAULT 0,
  next_attempt_at BIGINT NOT NULL,
  lease_owner     VARBINARY(255),
  lease_until     BIGINT,
  delivered_at    BIGINT,
  last_error      LONGBLOB,
  UNIQUE KEY outbox_once (tenant, id, op, generation),
  KEY outbox_due (delivered_at, next_attempt_at, seq),
  KEY outbox_open (tenant, id, delivered_at, seq),
  CONSTRAINT outbox_of FOREIGN KEY (tenant, id) REFERENCES reservation (tenant, id),
  CONSTRAINT lease_is_whole CHECK ((lease_owner IS NULL) = (lease_until IS NULL)),
  CONSTRAINT delivered_is_free CHECK (delivered_at IS NULL OR lease_owner IS NULL)
) ENGINE=InnoDB;
