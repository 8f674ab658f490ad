// Package sqlledger is account 1 kept in a SQL database: the product's ledger.
// Invariants stand in the schema; the queries live in .sql files with code
// generated beside them. SQLite is the dialect of one machine: one writer
// commits whatever has gathered while the previous commit was in flight, and
// readers never wait for it. Account 3's evidence lies in the same database.
package sqlledger

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
	"modeldock.io/internal/evidence"
)

var (
	_ budget.Ledger  = (*Ledger)(nil)
	_ evidence.Store = (*Ledger)(nil)
)

// Options of a ledger; zero fields take the defaults.
type Options struct {
	// Clock judges times, leases and expiry; default time.Now.
	Clock func() time.Time
	// HeadWait is how long a blocked request lets smaller ones pass; default
	// budget.DefaultHeadWait.
	HeadWait time.Duration
	// OnChange is called after a commit, once for each change in it: topic
	// "request" with the reservation, "quota" with a tenant in Ref.Tenant or a
	// pool in Ref.ID, "ledger" for keys, grants and allow lists. It runs on
	// the writer's goroutine: it returns at once and never calls the ledger.
	OnChange func(budget.Change)
	// Logger gets what no caller can be told; default discards.
	Logger *slog.Logger
	// BeforeStatement sees every statement of the writer, COMMIT included,
	// before it runs; its error takes the place of the store's answer. It is
	// for tracing and for injecting faults.
	BeforeStatement func(statement string) error
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.HeadWait == 0 {
		o.HeadWait = budget.DefaultHeadWait
	}
	if o.OnChange == nil {
		o.OnChange = func(budget.Change) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Ledger is a budget.Ledger and an evidence.Store over one database.
type Ledger struct {
	opts   Options
	write  *sql.DB // exactly one connection, the writer's
	read   *sql.DB // read-only connections
	reads  *readers
	writer *writer
}

// OpenSQLite opens the ledger kept in the file at path, creates it if it is
// not there and brings its schema up to date. Close it to checkpoint the log.
func OpenSQLite(ctx context.Context, path string, opts Options) (*Ledger, error) {
	opts = opts.withDefaults()
	if err := createPrivately(path); err != nil {
		return nil, err
	}
	write, err := openSQLite(path, writeSettings)
	if err != nil {
		return nil, err
	}
	write.SetMaxOpenConns(1)
	l := &Ledger{opts: opts, write: write}
	if err := l.prepare(ctx, path); err != nil {
		return nil, errors.Join(err, write.Close())
	}
	l.writer = newWriter(write, opts)
	return l, nil
}

// prepare migrates, gives a new ledger its identity and opens the read pool.
func (l *Ledger) prepare(ctx context.Context, path string) error {
	if err := migrateSQLite(ctx, l.write, path); err != nil {
		return err
	}
	incarnation := make([]byte, 16)
	_, _ = rand.Read(incarnation) // never fails
	err := sqlitequery.New(l.write).PutMetaOnce(ctx, sqlitequery.PutMetaOnceParams{Name: incarnationKey, Value: hex.EncodeToString(incarnation)})
	if err != nil {
		return fmt.Errorf("give the ledger %s its identity: %w", path, err)
	}
	read, err := openSQLite(path, readSettings)
	if err != nil {
		return err
	}
	read.SetMaxOpenConns(readConnections)
	read.SetMaxIdleConns(readConnections)
	if l.reads, err = openReaders(ctx, read, readConnections); err != nil {
		return errors.Join(err, read.Close())
	}
	l.read = read
	return nil
}

// Close stops taking work, lets what was taken commit, and closes the
// database. Calls made afterwards answer budget.ErrUnavailable.
func (l *Ledger) Close() error {
	l.writer.close()
	// The writer's connection goes last: it folds the log into the file.
	return errors.Join(l.reads.close(), l.read.Close(), l.write.Close())
}

// now is the ledger's clock in the resolution that is stored.
func (l *Ledger) now() time.Time { return l.opts.Clock().UTC().Truncate(time.Microsecond) }

// Queued is the number of writes that wait for the next commit, for metrics.
func (l *Ledger) Queued() int { return len(l.writer.queue) }
