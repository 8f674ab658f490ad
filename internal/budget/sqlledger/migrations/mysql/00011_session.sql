-- +goose Up
CREATE TABLE IF NOT EXISTS session (
  id_hash    BINARY(32) NOT NULL PRIMARY KEY,
  key_id     VARBINARY(255) NOT NULL,
  csrf_token VARBINARY(255) NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  KEY session_expiry (expires_at),
  CONSTRAINT session_of FOREIGN KEY (key_id) REFERENCES api_key (key_id)
) ENGINE=InnoDB;
