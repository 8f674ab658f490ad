package sqlledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/pressly/goose/v3"
)

// Inspection is what a database holds, and what this program would make of it
// when it opens it. Nothing is changed to find out.
type Inspection struct {
	Where   string // address and name, without a password; or a path
	Server  string // as it names itself, such as "10.11.14-MariaDB"
	Known   int64  // the newest schema version that this program knows
	Version int64  // the schema's; 0: no ledger is there yet
	Pending []string
	// Incarnation and JournalSeq name the ledger and its latest entry; empty
	// and 0 while there is none.
	Incarnation string
	JournalSeq  int64
	Settings    map[string]string // of a server: what its operation depends on
}

// Newer reports that a newer program made the schema; this one refuses it.
func (i Inspection) Newer() bool { return i.Version > i.Known }

// settingsLookedAt are the variables of a server that a ledger depends on.
func settingsLookedAt() []string {
	return []string{"read_only", "innodb_flush_log_at_trx_commit", "max_connections", "log_bin", "log_bin_trust_function_creators"}
}

// InspectMySQL looks at the database that OpenMySQL would open.
func InspectMySQL(ctx context.Context, dsn string) (i Inspection, err error) {
	db, where, err := inspected(dsn)
	if err != nil {
		return i, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	i = Inspection{Where: where, Settings: map[string]string{}}
	if err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&i.Server); err != nil {
		return i, fmt.Errorf("connect to the ledger at %s: %w", where, err)
	}
	for _, name := range settingsLookedAt() {
		var value sql.NullString
		if err := db.QueryRowContext(ctx, "SELECT @@"+name).Scan(&value); err == nil { // what a server does not know is left out
			i.Settings[name] = value.String
		}
	}
	return i, i.read(ctx, db, mysqlMigrations, "migrations/mysql", "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?")
}

// inspected is one plain connection, with the times of a writer's.
func inspected(dsn string) (*sql.DB, string, error) {
	cfg, err := mysqlConfig(dsn, Options{}.withDefaults().Logger)
	if err != nil {
		return nil, "", err
	}
	where := cfg.Addr + "/" + cfg.DBName
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, "", fmt.Errorf("open the ledger at %s: %w", where, err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	return db, where, nil
}

// InspectSQLite looks at a ledger in a file, also while another process works
// on it. A file that is not there yet has version 0.
func InspectSQLite(ctx context.Context, file string) (i Inspection, err error) {
	i = Inspection{Where: file}
	_, err = os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return i, i.judge(migrations, "migrations/sqlite")
	}
	if err != nil {
		return i, fmt.Errorf("look for the ledger: %w", err)
	}
	db, err := openSQLite(file, readSettings+"&mode=ro")
	if err != nil {
		return i, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.QueryRowContext(ctx, "SELECT 'SQLite ' || sqlite_version()").Scan(&i.Server); err != nil {
		return i, fmt.Errorf("open the ledger %s: %w", file, err)
	}
	return i, i.read(ctx, db, migrations, "migrations/sqlite", "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = ?")
}

// read fills in versions and identity; exists counts the tables of a name. A
// first migration that was killed half-way has made some of them.
func (i *Inspection) read(ctx context.Context, db *sql.DB, all fs.FS, folder, exists string) error {
	one := func(what, table, query string, into any, args ...any) error {
		var tables int
		err := db.QueryRowContext(ctx, exists, table).Scan(&tables)
		if err == nil && tables > 0 {
			err = db.QueryRowContext(ctx, query, args...).Scan(into)
		}
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("read %s of the ledger %s: %w", what, i.Where, err)
		}
		return nil
	}
	// The floor: a journal that was imported or accepted may begin above its entries.
	var version, entry sql.NullInt64
	var floor string
	err := errors.Join(
		one("the schema version", "goose_db_version", "SELECT MAX(version_id) FROM goose_db_version WHERE is_applied", &version),
		one("the identity", "meta", "SELECT value FROM meta WHERE name = ?", &i.Incarnation, incarnationKey),
		one("the journal", "meta", "SELECT value FROM meta WHERE name = ?", &floor, journalFloorKey),
		one("the journal", "journal", "SELECT MAX(seq) FROM journal", &entry),
	)
	if err != nil {
		return err
	}
	lifted, _ := strconv.ParseInt(floor, 10, 64) // empty: it was never lifted
	i.Version, i.JournalSeq = version.Int64, max(entry.Int64, lifted)
	return i.judge(all, folder)
}

// judge compares what is there with what this program knows.
func (i *Inspection) judge(all fs.FS, folder string) error {
	names, err := fs.Glob(all, folder+"/*.sql")
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	slices.Sort(names)
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return fmt.Errorf("read the migrations: %w", err)
		}
		i.Known = max(i.Known, version)
		if version > i.Version {
			i.Pending = append(i.Pending, strings.TrimSuffix(path.Base(name), ".sql"))
		}
	}
	return nil
}
