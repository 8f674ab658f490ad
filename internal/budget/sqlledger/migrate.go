package sqlledger

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/go-sql-driver/mysql"
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
	return migrate(ctx, goose.DialectSQLite3, db, migrations, "migrations/sqlite", path)
}

// migrate runs the migrations that the database lacks, if this program knows
// all that it has.
func migrate(ctx context.Context, dialect goose.Dialect, db *sql.DB, all fs.FS, folder, where string) error {
	files, err := fs.Sub(all, folder)
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	provider, err := goose.NewProvider(dialect, db, files)
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	have, err := provider.GetDBVersion(ctx)
	if err != nil {
		return fmt.Errorf("read the schema version of %s: %w", where, err)
	}
	sources := provider.ListSources()
	if want := sources[len(sources)-1].Version; have > want {
		return fmt.Errorf("the ledger %s has schema version %d, this program knows up to %d: run the newer program, or restore a backup made before the upgrade", where, have, want)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate the ledger %s from schema version %d: %w", where, have, err)
	}
	return nil
}

// MigrateSQLite brings the schema of a ledger in a file up to date, and opens
// it no further. Nothing else may work on the file.
func MigrateSQLite(ctx context.Context, path string) (err error) {
	if err := createPrivately(path); err != nil {
		return err
	}
	db, err := openSQLite(path, writeSettings)
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	defer func() { err = errors.Join(err, db.Close()) }()
	return migrateSQLite(ctx, db, path)
}

// MigrateMySQL does so with a database, beside whoever works on it.
func MigrateMySQL(ctx context.Context, dsn string) (err error) {
	cfg, err := mysqlConfig(dsn, Options{}.withDefaults().Logger)
	if err != nil {
		return err
	}
	where := cfg.Addr + "/" + cfg.DBName
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return fmt.Errorf("open the ledger at %s: %w", where, err)
	}
	db := sql.OpenDB(connector)
	defer func() { err = errors.Join(err, db.Close()) }()
	return migrateMySQL(ctx, db, where)
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

//go:embed migrations/mysql/*.sql
var mysqlMigrations embed.FS

// migrationWait is how long another process's migration is waited for.
const migrationWait = 5 * time.Minute

// migrateMySQL brings the schema up to date, forward only. The server's own
// lock keeps processes apart that start together; it goes with its connection.
func migrateMySQL(ctx context.Context, db *sql.DB, where string) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect to the ledger at %s: %w", where, err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := lockMySQL(ctx, conn); err != nil {
		return fmt.Errorf("lock the ledger at %s for migration: %w", where, err)
	}
	defer func() {
		_, unlock := conn.ExecContext(context.WithoutCancel(ctx), "DO RELEASE_LOCK(CONCAT('modeldock:', DATABASE()))")
		err = errors.Join(err, unlock)
	}()
	return migrate(ctx, goose.DialectMySQL, db, mysqlMigrations, "migrations/mysql", where)
}

// lockMySQL asks in short turns: an answer is never waited for longer than
// the connection allows.
func lockMySQL(ctx context.Context, conn *sql.Conn) error {
	for start := time.Now(); time.Since(start) < migrationWait; {
		var got sql.NullInt64
		if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(CONCAT('modeldock:', DATABASE()), 2)").Scan(&got); err != nil {
			return err
		}
		if got.Int64 == 1 {
			return nil
		}
	}
	return fmt.Errorf("another process has been migrating it for %s", migrationWait)
}
