package sqlledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Times of a connection, unless the DSN says otherwise. An answer is waited
// for longer than any lock, so that a lock wait ends as one.
const (
	lockWait       = 5 * time.Second
	answerWait     = 8 * time.Second
	connectWait    = 5 * time.Second
	idleWriterWait = 30 * time.Second // a writer that vanished in a transaction holds its locks no longer
)

// mysqlReaders bounds the readers from outside, mysqlInserters the writers that put new
// requests: more than two do not pay, one waits for its own flush.
const (
	mysqlReaders   = 8
	mysqlInserters = 2
)

// OpenMySQL opens the ledger kept in a MySQL or MariaDB database, which must
// exist, and brings its schema up to date. Any number of processes may have
// the same one open. The DSN is go-sql-driver's: user:password@tcp(host)/name.
func OpenMySQL(ctx context.Context, dsn string, opts Options) (*Ledger, error) {
	opts = opts.withDefaults()
	cfg, err := mysqlConfig(dsn, opts.Logger)
	if err != nil {
		return nil, err
	}
	where := cfg.Addr + "/" + cfg.DBName // says no password
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("open the ledger at %s: %w", where, err)
	}
	l := &Ledger{opts: opts, dialect: mysqlDialect{isolation: repeatableRead}, clock: databaseClock, write: sql.OpenDB(connector), read: sql.OpenDB(connector)}
	if opts.Clock != nil {
		l.clock = opts.clock
	}
	// The writers' connections, and one to read back what became of a commit.
	l.write.SetMaxOpenConns(2*(mysqlInserters+2) + 1) // and one to hold the home of the models
	// The readers keep theirs, the board has one, and one looks for news.
	l.read.SetMaxOpenConns(mysqlReaders + ownReaders + 2)
	l.read.SetMaxIdleConns(mysqlReaders + ownReaders + 2)
	if err := l.prepareMySQL(ctx, where); err != nil {
		return nil, errors.Join(err, l.read.Close(), l.write.Close())
	}
	return l, nil
}

func (l *Ledger) prepareMySQL(ctx context.Context, where string) (err error) {
	if err := migrateMySQL(ctx, l.write, where); err != nil {
		return err
	}
	if err := l.identify(ctx); err != nil {
		return fmt.Errorf("give the ledger at %s its identity: %w", where, err)
	}
	if err := l.openReads(ctx, l.read, mysqlReaders); err != nil {
		return err
	}
	l.startWriters()
	return nil
}

// startWriters starts the one that takes turns with other processes, one that
// does so for evidence, and the ones that put new requests, which need no
// turn: they change no row that anybody else has seen.
func (l *Ledger) startWriters() {
	writing := mysqlDialect{isolation: readCommitted}
	l.writer = newWriter(l.write, writing, newMySQLProtocol(l.write, l.opts, ledgerTurn), l.opts)
	l.evidence = newWriter(l.write, writing, newMySQLProtocol(l.write, l.opts, evidenceTurn), l.opts)
	queue, ended := make(chan *operation, maxQueued), make(chan struct{})
	for range mysqlInserters {
		w := &writer{
			db: l.write, dialect: writing, protocol: newMySQLProtocol(l.write, l.opts, noTurn), together: insertTogether,
			opts: l.opts, queue: queue, closing: make(chan struct{}), stopped: make(chan struct{}), ended: ended,
		}
		go w.loop()
		l.inserters = append(l.inserters, w)
	}
	go func() {
		for _, w := range l.inserters {
			<-w.stopped
		}
		close(ended)
	}()
	own := map[string]bool{}
	for _, w := range append([]*writer{l.writer, l.evidence}, l.inserters...) {
		own[w.protocol.(*mysqlProtocol).name] = true
	}
	l.news = l.followOthers(own)
}

// mysqlConfig reads the DSN and sets what the ledger relies on.
func mysqlConfig(dsn string, log *slog.Logger) (*mysql.Config, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("read the ledger's DSN (user:password@tcp(host:port)/database): %w", err)
	}
	if cfg.DBName == "" {
		return nil, errors.New("the ledger's DSN names no database: end it with /name of one that exists")
	}
	// A row that an UPDATE finds counts, whether or not it changes: as on SQLite.
	cfg.ClientFoundRows = true
	// One round trip for each statement, and nothing prepared to lose.
	cfg.InterpolateParams = true
	cfg.MultiStatements = false
	cfg.ParseTime = true
	// A statement alone is a transaction of its own, whatever the server's
	// default: one left open would show an old state to all that follow.
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	cfg.Params["autocommit"] = "1"
	cfg.Collation = "utf8mb4_bin"
	cfg.Logger = driverLog{log}
	if cfg.Timeout == 0 {
		cfg.Timeout = connectWait
	}
	if cfg.ReadTimeout == 0 {
		cfg.ReadTimeout = answerWait
	}
	if cfg.WriteTimeout == 0 {
		cfg.WriteTimeout = answerWait
	}
	return cfg, nil
}

// driverLog takes what the driver would print on the standard error.
type driverLog struct{ log *slog.Logger }

func (d driverLog) Print(v ...any) { d.log.Debug("database driver", "message", fmt.Sprint(v...)) }
