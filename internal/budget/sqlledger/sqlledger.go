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
	// Clock judges times, leases and expiry; default time.Now on SQLite, and
	// on MySQL the database's own, which all its processes share.
	Clock func() time.Time
	// HeadWait is how long a blocked request lets smaller ones pass; default
	// budget.DefaultHeadWait.
	HeadWait time.Duration
	// OnChange is called after a commit, once for each change in it: topic
	// "request" with the reservation, "quota" with a tenant in Ref.Tenant or a
	// pool in Ref.ID, "ledger" for keys, grants and allow lists. It runs on
	// the writer's goroutine: it returns at once and never calls the ledger.
	// On MySQL it also hears, within newsEvery, that another process changed
	// something: topic budget.TopicElsewhere, without saying what.
	OnChange func(budget.Change)
	// Logger gets what no caller can be told; default discards.
	Logger *slog.Logger
	// BeforeStatement sees every statement of the writer, COMMIT included,
	// before it runs; its error takes the place of the store's answer. It is
	// for tracing and for injecting faults.
	BeforeStatement func(statement string) error
}

func (o Options) withDefaults() Options {
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
	opts      Options
	dialect   dialect
	clock     func(ctx context.Context, q queries) (time.Time, error) // the ledger's, in the resolution that is stored
	write     *sql.DB                                                 // the writers' connections only, exactly one each
	read      *sql.DB                                                 // read-only connections
	reads     *readers
	board     board // why each request waits
	writer    *writer
	evidence  *writer   // the same one on SQLite
	inserters []*writer // of new requests, where the database gains by more than one writer
	news      *news     // of other processes; nil where there are none
}

// OpenSQLite opens the ledger kept in the file at path, creates it if it is
// not there and brings its schema up to date. Close it to checkpoint the log.
func OpenSQLite(ctx context.Context, path string, opts Options) (*Ledger, error) {
	opts = opts.withDefaults()
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	if err := createPrivately(path); err != nil {
		return nil, err
	}
	write, err := openSQLite(path, writeSettings)
	if err != nil {
		return nil, err
	}
	write.SetMaxOpenConns(1)
	l := &Ledger{opts: opts, dialect: sqliteDialect{}, clock: opts.clock, write: write}
	if err := l.prepare(ctx, path); err != nil {
		return nil, errors.Join(err, write.Close())
	}
	l.writer = newWriter(write, l.dialect, sqliteProtocol{opts}, opts)
	l.evidence = l.writer
	return l, nil
}

// prepare migrates, gives a new ledger its identity and opens the read pool.
func (l *Ledger) prepare(ctx context.Context, path string) error {
	if err := migrateSQLite(ctx, l.write, path); err != nil {
		return err
	}
	if err := l.identify(ctx); err != nil {
		return fmt.Errorf("give the ledger %s its identity: %w", path, err)
	}
	read, err := openSQLite(path, readSettings)
	if err != nil {
		return err
	}
	read.SetMaxOpenConns(readConnections + ownReaders + 1) // and the board's
	read.SetMaxIdleConns(readConnections + ownReaders + 1)
	if err := l.openReads(ctx, read, readConnections); err != nil {
		return errors.Join(err, read.Close())
	}
	l.read = read
	return nil
}

// openReads opens the read pool and the board's own connection.
func (l *Ledger) openReads(ctx context.Context, db *sql.DB, outside int) (err error) {
	if l.reads, err = openReaders(ctx, db, l.dialect, outside, ownReaders); err != nil {
		return err
	}
	if l.board.reads, err = openReaders(ctx, db, l.dialect, 1, 0); err != nil {
		l.reads.close()
		return err
	}
	return nil
}

// identify gives a new ledger its identity.
func (l *Ledger) identify(ctx context.Context) error {
	return l.dialect.queries(l.write).PutMetaOnce(ctx, sqlitequery.PutMetaOnceParams{Name: incarnationKey, Value: randomName()})
}

func randomName() string {
	name := make([]byte, 16)
	_, _ = rand.Read(name) // never fails
	return hex.EncodeToString(name)
}

// Close stops taking work, lets what was taken commit, and closes the
// database. Calls made afterwards answer budget.ErrUnavailable.
func (l *Ledger) Close() error {
	if l.news != nil {
		l.news.close()
	}
	for _, w := range l.inserters {
		w.close()
	}
	l.evidence.close()
	l.writer.close()
	// The writer's connection goes last: it folds the log into the file.
	l.reads.close()
	l.board.reads.close()
	return errors.Join(l.read.Close(), l.write.Close())
}

// clock is the injected one.
func (o Options) clock(context.Context, queries) (time.Time, error) {
	return o.Clock().UTC().Truncate(time.Microsecond), nil
}

// Queued is the number of writes that wait for the next commit, for metrics.
func (l *Ledger) Queued() int {
	n := len(l.writer.queue)
	if len(l.inserters) > 0 {
		n += len(l.inserters[0].queue) // they share it
	}
	return n
}
