package sqlledger

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/pressly/goose/v3"
	"golang.org/x/sys/unix"
)

//go:embed migrations/sqlite/*.sql
var migrations embed.FS

// migrateSQLite brings the schema up to date, forward only. Two processes
// that start together would collide, so one holds an exclusive file lock.
func migrateSQLite(ctx context.Context, db *sql.DB, path string) (err error) {
	lock, err := os.OpenFile(path+".migrate", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("lock the ledger %s for migration: %w", path, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := flock(lock); err != nil {
		return fmt.Errorf("lock the ledger %s for migration: %w", path, err)
	}
	files, err := fs.Sub(migrations, "migrations/sqlite")
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files)
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	have, err := provider.GetDBVersion(ctx)
	if err != nil {
		return fmt.Errorf("read the schema version of %s: %w", path, err)
	}
	sources := provider.ListSources()
	if want := sources[len(sources)-1].Version; have > want {
		return fmt.Errorf("the ledger %s has schema version %d, this program knows up to %d: run the newer program, or restore a backup made before the upgrade", path, have, want)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate the ledger %s from schema version %d: %w", path, have, err)
	}
	return nil
}

// flock waits for the exclusive lock; closing the file lets it go.
func flock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
