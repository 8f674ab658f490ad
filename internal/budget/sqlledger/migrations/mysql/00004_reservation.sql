-- +goose Up
-- need is what admission takes: cost × max(1, replicas.min) of the spec.
-- live and releasing stand for the partial indexes that other databases have.
-- tenant and pool are no foreign keys: every insert would lock both parent
-- rows, the very ones that admissions write last. Triggers keep the parents.
CREATE TABLE IF NOT EXISTS reservation (
  seq                  BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  tenant               VARBINARY(255) NOT NULL,
  id                   VARBINARY(255) NOT NULL CHECK (id <> ''),
  revision             BIGINT NOT NULL DEFAULT 1 CHECK (revision >= 1),
  generation           BIGINT NOT NULL DEFAULT 1 CHECK (generation >= 1),
  cost                 BIGINT NOT NULL CHECK (cost BETWEEN 1 AND 1000000),
  priority             BIGINT NOT NULL CHECK (priority BETWEEN 0 AND 100),
  need                 BIGINT NOT NULL CHECK (need >= cost AND need % cost = 0),
  model_name           VARBINARY(255) NOT NULL,
  model_version        VARBINARY(255) NOT NULL,
  spec                 MEDIUMBLOB NOT NULL,
  spec_hash            VARBINARY(128) NOT NULL,
  state                VARBINARY(16) NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'reserved', 'released', 'expired')),
  pool                 VARBINARY(255) NOT NULL,
  node                 VARBINARY(255) NOT NULL DEFAULT '',
  held                 BIGINT NOT NULL DEFAULT 0 CHECK (held >= 0 AND held % cost = 0),
  submits              BIGINT NOT NULL DEFAULT 1 CHECK (submits >= 1),
  created_at           BIGINT NOT NULL,
  reserved_at          BIGINT,
  release_requested_at BIGINT,
  released_at          BIGINT,
  expires_at           BIGINT NOT NULL CHECK (expires_at > created_at),
  live                 TINYINT GENERATED ALWAYS AS (CASE WHEN state IN ('waiting', 'reserved') THEN 1 END) STORED,
  releasing            TINYINT GENERATED ALWAYS AS (CASE WHEN state = 'reserved' AND release_requested_at IS NOT NULL THEN 1 END) STORED,
  UNIQUE KEY reservation_id (tenant, id),
  UNIQUE KEY reservation_live_model (tenant, model_name, model_version, live),
  KEY reservation_queue (tenant, state, priority DESC, seq, need, pool, created_at, expires_at, id),
  KEY reservation_expiry (state, expires_at),
  KEY reservation_releasing (releasing, seq),
  CONSTRAINT reserved_holds CHECK ((state = 'reserved') = (held > 0)),
  CONSTRAINT released_has_time CHECK ((state = 'released') = (released_at IS NOT NULL)),
  CONSTRAINT reserved_has_time CHECK (state <> 'reserved' OR reserved_at IS NOT NULL),
  CONSTRAINT released_was_asked CHECK (state <> 'released' OR release_requested_at IS NOT NULL),
  CONSTRAINT waiting_has_nothing CHECK (state NOT IN ('waiting', 'expired') OR (reserved_at IS NULL AND release_requested_at IS NULL))
) ENGINE=InnoDB;
