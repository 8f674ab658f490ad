package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"modeldock.io/internal/budget/sqlledger"
)

// Migrated is what a migration did, or would do.
type Migrated struct {
	Where      string   `json:"where"` // address and database without a password, or a path
	From       int64    `json:"from"`  // schema versions
	To         int64    `json:"to"`
	Migrations []string `json:"migrations"`
}

// Migrate brings the ledger of a DSN, or else of a data directory, to this
// program's schema; with dry it only looks. The data directory must be free.
func Migrate(ctx context.Context, dsn, dataDir string, dry bool) (m Migrated, err error) {
	look, migrate := sqlledger.InspectMySQL, sqlledger.MigrateMySQL
	if dsn == "" {
		dsn, look, migrate = filepath.Join(dataDir, ledgerFile), sqlledger.InspectSQLite, sqlledger.MigrateSQLite
		if _, err := os.Stat(dsn); err != nil {
			return m, fmt.Errorf("look for the ledger: %w: `modeldock up` makes a new one", err)
		}
	}
	if dataDir != "" && !dry {
		dir, err := openDataDir(dataDir)
		if err != nil {
			return m, err
		}
		defer dir.close()
	}
	i, err := look(ctx, dsn)
	if err != nil {
		return m, err
	}
	m = Migrated{Where: i.Where, From: i.Version, To: max(i.Known, i.Version), Migrations: append([]string{}, i.Pending...)}
	if dry && i.Newer() {
		return m, fmt.Errorf("the ledger %s has schema version %d, this program knows up to %d: run the newer program", i.Where, i.Version, i.Known)
	}
	if dry {
		return m, nil
	}
	return m, migrate(ctx, dsn)
}
