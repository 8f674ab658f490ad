package sqlledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"modeldock.io/internal/budget/sqlledger/sqlitequery"
)

// busyTimeout is how long a lock held by another process is waited for.
const busyTimeout = 15 * time.Second

// readConnections bounds the readers from outside; SQLite's block nobody.
const readConnections = 4

// Settings of the two kinds of connection. FULL makes every commit durable:
// with grouped commits it costs little.
const (
	commonSettings = "_pragma=foreign_keys(1)&_pragma=temp_store(memory)"
	writeSettings  = commonSettings + "&_txlock=immediate&_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=journal_size_limit(67108864)"
	readSettings   = commonSettings + "&_pragma=query_only(1)"
)

func openSQLite(path, settings string) (*sql.DB, error) {
	// The path stands in a URI: what is special there is escaped.
	escaped := strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path)
	timeout := strconv.FormatInt(busyTimeout.Milliseconds(), 10)
	// The timeout comes first: setting the journal mode may have to wait too.
	db, err := sql.Open("sqlite", "file:"+escaped+"?_pragma=busy_timeout("+timeout+")&"+settings)
	if err != nil {
		return nil, fmt.Errorf("open the ledger %s: %w", path, err)
	}
	return db, nil
}

// createPrivately makes sure that a new database file, and the log files that
// inherit its mode, can be read by their owner only.
func createPrivately(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("create the ledger %s: its folder does not exist: %w", path, err)
	}
	if err != nil {
		return fmt.Errorf("create the ledger %s: %w", path, err)
	}
	return f.Close()
}

// beginImmediate takes the write lock. SQLite waits for the busy timeout by
// itself but answers some kinds of BUSY at once, for example while another
// process recovers the log: those are asked again until the same time is up.
func beginImmediate(ctx context.Context, exec func(context.Context, string) error) error {
	for start := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		err := exec(ctx, "BEGIN IMMEDIATE")
		if !isBusy(err) || time.Since(start) >= busyTimeout {
			return err
		}
	}
}

// primaryCode returns SQLite's primary result code, or 0 for other errors.
func primaryCode(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

func isBusy(err error) bool { return primaryCode(err) == sqlite3.SQLITE_BUSY }

// sqliteDialect is SQLite's side of the differences.
type sqliteDialect struct{}

func (sqliteDialect) queries(db sqlitequery.DBTX) queries {
	return sqliteQueries{sqlitequery.New(db), db}
}

func (sqliteDialect) session(_ context.Context, conn *sql.Conn, before func(string) error) (*session, error) {
	return newSession(conn, before), nil
}

func (sqliteDialect) beginSnapshot(ctx context.Context, s *session) error {
	return s.exec(ctx, "BEGIN")
}

// version changes with every commit of another connection, also of another program.
func (sqliteDialect) version(ctx context.Context, s *session) (n int64, known bool, err error) {
	err = s.QueryRowContext(ctx, "PRAGMA data_version").Scan(&n)
	return n, err == nil, err
}

// numberJournalAbove: the transaction does it.
func (sqliteDialect) numberJournalAbove(context.Context, *sql.DB, int64) error { return nil }

func (sqliteDialect) isConstraint(err error) bool {
	return primaryCode(err) == sqlite3.SQLITE_CONSTRAINT
}

// isTransient: the one writer has waited as long as is sensible.
func (sqliteDialect) isTransient(error) bool { return false }

// isLost: there is no server to lose.
func (sqliteDialect) isLost(error) bool { return false }

// sqliteProtocol takes SQLite's one write lock.
type sqliteProtocol struct{ opts Options }

func (p sqliteProtocol) begin(ctx context.Context, s *session) (func() time.Time, error) {
	return p.opts.Clock, beginImmediate(ctx, s.exec)
}

// announce: no other process works on the file.
func (sqliteProtocol) announce(context.Context, *session) error { return nil }

// settle: a COMMIT that fails has not taken effect.
func (sqliteProtocol) settle(_ context.Context, _ *session, failure error) error { return failure }

func (sqliteProtocol) end(context.Context) {}
