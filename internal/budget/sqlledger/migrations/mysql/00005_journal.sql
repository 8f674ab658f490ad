-- +goose Up
-- once: one debit by reserve and one credit by release, whatever the revision.
CREATE TABLE IF NOT EXISTS journal (
  seq      BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  tenant   VARBINARY(255) NOT NULL,
  id       VARBINARY(255) NOT NULL,
  pool     VARBINARY(255) NOT NULL,
  op       VARBINARY(16) NOT NULL CHECK (op IN ('reserve', 'grow', 'shrink', 'release')),
  revision BIGINT NOT NULL,
  slots    BIGINT NOT NULL,
  at       BIGINT NOT NULL,
  once     VARBINARY(16) GENERATED ALWAYS AS (CASE WHEN op IN ('reserve', 'release') THEN op END) STORED,
  UNIQUE KEY journal_revision (tenant, id, revision),
  UNIQUE KEY journal_once (tenant, id, once),
  CONSTRAINT journal_of FOREIGN KEY (tenant, id) REFERENCES reservation (tenant, id),
  CONSTRAINT journal_sign CHECK (slots <> 0 AND (slots > 0) = (op IN ('reserve', 'grow')))
) ENGINE=InnoDB;
