-- For the generator alone: columns that migrations add in prepared statements,
-- which it cannot read.
ALTER TABLE reservation ADD COLUMN funded BIGINT NOT NULL DEFAULT 0;
ALTER TABLE reservation ADD COLUMN shrinking TINYINT;
ALTER TABLE tenant_quota ADD COLUMN limits VARCHAR(4096) NOT NULL DEFAULT '{}';
ALTER TABLE gpu_pool ADD COLUMN warm VARCHAR(6000) NOT NULL DEFAULT '{}';
ALTER TABLE gpu_pool ADD COLUMN warm_day VARCHAR(6000) NOT NULL DEFAULT '{}';
ALTER TABLE audit ADD COLUMN tenant VARBINARY(255) NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN source VARBINARY(255) NOT NULL DEFAULT '';
