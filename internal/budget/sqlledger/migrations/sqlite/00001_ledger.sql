-- +goose Up
-- Account 1. Times are microseconds since 1970 in UTC, NULL means "not yet".
-- Text compares byte for byte (SQLite's default collation BINARY).

CREATE TABLE meta (
  name  TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- cap is not bounded by used: an admin may lower it below what is held.
CREATE TABLE tenant_quota (
  tenant  TEXT    NOT NULL PRIMARY KEY CHECK (tenant <> ''),
  cap     INTEGER NOT NULL DEFAULT 0 CHECK (cap >= 0),
  used    INTEGER NOT NULL DEFAULT 0 CHECK (used >= 0),
  engines TEXT    NOT NULL DEFAULT '[]' CHECK (CASE WHEN json_valid(engines) THEN json_type(engines) = 'array' ELSE 0 END),
  pools   TEXT    NOT NULL DEFAULT '[]' CHECK (CASE WHEN json_valid(pools) THEN json_type(pools) = 'array' ELSE 0 END)
) STRICT, WITHOUT ROWID;

CREATE TABLE gpu_pool (
  pool TEXT    NOT NULL PRIMARY KEY CHECK (pool <> ''),
  cap  INTEGER NOT NULL DEFAULT 0 CHECK (cap >= 0),
  used INTEGER NOT NULL DEFAULT 0 CHECK (used >= 0)
) STRICT, WITHOUT ROWID;

-- need is what admission takes: cost × max(1, replicas.min) of the spec.
CREATE TABLE reservation (
  seq                  INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant               TEXT    NOT NULL REFERENCES tenant_quota (tenant),
  id                   TEXT    NOT NULL CHECK (id <> ''),
  revision             INTEGER NOT NULL DEFAULT 1 CHECK (revision >= 1),
  generation           INTEGER NOT NULL DEFAULT 1 CHECK (generation >= 1),
  cost                 INTEGER NOT NULL CHECK (cost BETWEEN 1 AND 1000000),
  priority             INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 100),
  need                 INTEGER NOT NULL CHECK (need >= cost AND need % cost = 0),
  model_name           TEXT    NOT NULL,
  model_version        TEXT    NOT NULL,
  spec                 BLOB    NOT NULL,
  spec_hash            TEXT    NOT NULL,
  state                TEXT    NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'reserved', 'released', 'expired')),
  pool                 TEXT    NOT NULL REFERENCES gpu_pool (pool),
  node                 TEXT    NOT NULL DEFAULT '',
  held                 INTEGER NOT NULL DEFAULT 0 CHECK (held >= 0 AND held % cost = 0),
  submits              INTEGER NOT NULL DEFAULT 1 CHECK (submits >= 1),
  created_at           INTEGER NOT NULL,
  reserved_at          INTEGER,
  release_requested_at INTEGER,
  released_at          INTEGER,
  expires_at           INTEGER NOT NULL CHECK (expires_at > created_at),
  UNIQUE (tenant, id),
  CHECK ((state = 'reserved') = (held > 0)),
  CHECK ((state = 'released') = (released_at IS NOT NULL)),
  CHECK (state <> 'reserved' OR reserved_at IS NOT NULL),
  CHECK (state <> 'released' OR release_requested_at IS NOT NULL),
  CHECK (state NOT IN ('waiting', 'expired') OR (reserved_at IS NULL AND release_requested_at IS NULL))
) STRICT;

-- One live request per tenant, model name and version.
CREATE UNIQUE INDEX reservation_live_model ON reservation (tenant, model_name, model_version)
  WHERE state IN ('waiting', 'reserved');
-- The queue, per tenant in the published order; it covers the admission walk.
CREATE INDEX reservation_queue ON reservation (tenant, priority DESC, seq, need, pool, created_at, expires_at, id)
  WHERE state = 'waiting';
CREATE INDEX reservation_expiry ON reservation (expires_at) WHERE state = 'waiting';
CREATE INDEX reservation_names ON reservation (tenant, model_name);
CREATE INDEX reservation_releasing ON reservation (seq)
  WHERE state = 'reserved' AND release_requested_at IS NOT NULL;

-- INV4 in the schema.
-- +goose StatementBegin
CREATE TRIGGER reservation_moves BEFORE UPDATE OF state ON reservation
  WHEN OLD.state <> NEW.state
   AND NOT (OLD.state = 'waiting' OR (OLD.state = 'reserved' AND NEW.state = 'released'))
BEGIN
  SELECT RAISE(ABORT, 'a reservation only moves waiting to reserved to released, or waiting to expired or released');
END;
-- +goose StatementEnd

CREATE TABLE journal (
  seq      INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant   TEXT    NOT NULL,
  id       TEXT    NOT NULL,
  pool     TEXT    NOT NULL,
  op       TEXT    NOT NULL CHECK (op IN ('reserve', 'grow', 'shrink', 'release')),
  revision INTEGER NOT NULL,
  slots    INTEGER NOT NULL CHECK (slots <> 0 AND (slots > 0) = (op IN ('reserve', 'grow'))),
  at       INTEGER NOT NULL,
  UNIQUE (tenant, id, revision),
  FOREIGN KEY (tenant, id) REFERENCES reservation (tenant, id)
) STRICT;

-- One debit by reserve and one credit by release, whatever the revision.
CREATE UNIQUE INDEX journal_once ON journal (tenant, id, op) WHERE op IN ('reserve', 'release');

-- +goose StatementBegin
CREATE TRIGGER journal_keeps BEFORE UPDATE ON journal BEGIN
  SELECT RAISE(ABORT, 'the journal is append-only');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER journal_stays BEFORE DELETE ON journal BEGIN
  SELECT RAISE(ABORT, 'the journal is append-only');
END;
-- +goose StatementEnd

-- payload is the model to run; funded is how many replicas are paid for.
CREATE TABLE outbox (
  seq             INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant          TEXT    NOT NULL,
  id              TEXT    NOT NULL,
  op              TEXT    NOT NULL CHECK (op IN ('apply', 'delete')),
  generation      INTEGER NOT NULL,
  payload         BLOB    NOT NULL,
  funded          INTEGER NOT NULL CHECK (funded >= 0),
  attempts        INTEGER NOT NULL DEFAULT 0,
  next_attempt_at INTEGER NOT NULL,
  lease_owner     TEXT,
  lease_until     INTEGER,
  delivered_at    INTEGER,
  last_error      TEXT,
  UNIQUE (tenant, id, op, generation),
  FOREIGN KEY (tenant, id) REFERENCES reservation (tenant, id),
  CHECK ((lease_owner IS NULL) = (lease_until IS NULL)),
  CHECK (delivered_at IS NULL OR lease_owner IS NULL)
) STRICT;

CREATE INDEX outbox_due ON outbox (next_attempt_at, seq) WHERE delivered_at IS NULL;
CREATE INDEX outbox_open ON outbox (tenant, id, seq) WHERE delivered_at IS NULL;

CREATE TABLE binding (
  tenant         TEXT    NOT NULL,
  id             TEXT    NOT NULL,
  namespace      TEXT    NOT NULL,
  name           TEXT    NOT NULL,
  uid            TEXT    NOT NULL UNIQUE CHECK (uid <> ''),
  bound_at       INTEGER NOT NULL,
  ever_ready     INTEGER NOT NULL DEFAULT 0 CHECK (ever_ready IN (0, 1)),
  first_ready_at INTEGER,
  gone_at        INTEGER,
  PRIMARY KEY (tenant, id),
  UNIQUE (namespace, name),
  FOREIGN KEY (tenant, id) REFERENCES reservation (tenant, id),
  CHECK ((ever_ready = 1) = (first_ready_at IS NOT NULL))
) STRICT;
