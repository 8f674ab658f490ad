-- +goose Up
CREATE TABLE IF NOT EXISTS binding (
  tenant         VARBINARY(255) NOT NULL,
  id             VARBINARY(255) NOT NULL,
  namespace      VARBINARY(255) NOT NULL,
  name           VARBINARY(255) NOT NULL,
  uid            VARBINARY(255) NOT NULL CHECK (uid <> ''),
  bound_at       BIGINT NOT NULL,
  ever_ready     BIGINT NOT NULL DEFAULT 0 CHECK (ever_ready IN (0, 1)),
  first_ready_at BIGINT,
  gone_at        BIGINT,
  PRIMARY KEY (tenant, id),
  UNIQUE KEY binding_uid (uid),
  UNIQUE KEY binding_name (namespace, name),
  CONSTRAINT binding_of FOREIGN KEY (tenant, id) REFERENCES reservation (tenant, id),
  CONSTRAINT ready_has_time CHECK ((ever_ready = 1) = (first_ready_at IS NOT NULL))
) ENGINE=InnoDB;
