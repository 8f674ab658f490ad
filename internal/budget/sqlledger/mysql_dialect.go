package sqlledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/go-sql-driver/mysql"

	"modeldock.io/internal/budget/sqlledger/mysqlquery"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
)

// Numbers of MySQL's and MariaDB's errors.
const (
	errDuplicate       = 1062
	errLockWait        = 1205
	errDeadlock        = 1213
	errUnknownVariable = 1193
)

// refusals are the errors by which the schema refuses a row: NULL, duplicate,
// no parent, has children, too long, out of range or no text, a trigger's
// SIGNAL, and CHECK of MariaDB and of MySQL.
var refusals = [...]uint16{1048, errDuplicate, 1216, 1217, 1264, 1300, 1366, 1406, 1451, 1452, 1644, 1690, 3819, 4025}

func errorNumber(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

func isDuplicate(err error) bool { return errorNumber(err) == errDuplicate }

// mysqlDialect is MySQL's and MariaDB's side of the differences. Writers read
// what is committed: the turn, not a snapshot, keeps their transactions apart.
type mysqlDialect struct{ isolation string }

// The two kinds of connection.
const (
	readCommitted  = "READ COMMITTED"
	repeatableRead = "REPEATABLE READ"
)

func (mysqlDialect) queries(db sqlitequery.DBTX) queries {
	return &mysqlQueries{q: mysqlquery.New(db), db: db}
}

// session sets a connection up.
func (d mysqlDialect) session(ctx context.Context, conn *sql.Conn, before func(string) error) (*session, error) {
	s := &session{conn: conn, before: before}
	for _, statement := range []string{
		"SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO'",
		fmt.Sprintf("SET SESSION innodb_lock_wait_timeout = %d", int(lockWait.Seconds())),
		"SET SESSION TRANSACTION ISOLATION LEVEL " + d.isolation,
		fmt.Sprintf("SET SESSION idle_write_transaction_timeout = %d", int(idleWriterWait.Seconds())),
	} {
		_, err := conn.ExecContext(ctx, statement)
		if err != nil && errorNumber(err) != errUnknownVariable { // the last one is MariaDB's alone
			return nil, fmt.Errorf("%s: %w", statement, err)
		}
	}
	if err := conn.QueryRowContext(ctx, "SELECT CONNECTION_ID(), @@SESSION.auto_increment_increment").Scan(&s.id, &s.step); err != nil {
		return nil, fmt.Errorf("ask for the connection's numbers: %w", err)
	}
	return s, nil
}

func (mysqlDialect) beginSnapshot(ctx context.Context, s *session) error {
	return s.exec(ctx, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
}

// version: whoever changes rows by hand counts nothing, so nothing is known.
func (mysqlDialect) version(context.Context, *session) (int64, bool, error) { return 0, false, nil }

// numberJournalAbove sets the table's next number. It ends a transaction, so
// it has a connection of its own; and it waits for every reader of the table,
// with everybody else behind it, so it does not wait for long.
func (mysqlDialect) numberJournalAbove(ctx context.Context, db *sql.DB, seq int64) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for _, statement := range []string{
		fmt.Sprintf("SET SESSION lock_wait_timeout = %d", int(lockWait.Seconds())),
		fmt.Sprintf("ALTER TABLE journal AUTO_INCREMENT = %d", seq+1),
		"SET SESSION lock_wait_timeout = DEFAULT",
	} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

func (mysqlDialect) isConstraint(err error) bool {
	return errors.Is(err, errNoParent) || errors.Is(err, errTaken) || slices.Contains(refusals[:], errorNumber(err))
}

// isTransient: a deadlock's victim, a lock that was not given in time, or a
// connection that broke before the COMMIT was sent. In all of them nothing
// was committed, and the transaction is repeated from its beginning.
func (d mysqlDialect) isTransient(err error) bool {
	if errors.Is(err, errUnknown) {
		return false
	}
	n := errorNumber(err)
	return n == errDeadlock || n == errLockWait || d.isLost(err)
}

func (mysqlDialect) isLost(err error) bool {
	if err == nil {
		return false
	}
	var network net.Error
	return errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.EOF) ||
		errors.Is(err, sql.ErrConnDone) || errors.As(err, &network)
}

// databaseClock is the clock that all processes on one database share.
func databaseClock(ctx context.Context, q queries) (time.Time, error) {
	us, err := q.(*mysqlQueries).q.DatabaseNow(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", err)
	}
	return moment(us), nil
}

// The turns, by the name of their rows.
const (
	ledgerTurn   = "turn"
	evidenceTurn = "evidence-turn"
	noTurn       = ""
)

// mysqlProtocol is one writer's. With the turn, a locked row keeps the
// transactions of all processes apart, as SQLite's write lock does: what one
// reads stays true until it commits. It is taken first and by everybody, so
// that those who hold it never wait for each other. Every transaction numbers
// itself in a row of the writer's own, see settle.
type mysqlProtocol struct {
	db     *sql.DB
	opts   Options
	turn   string // the locked row; "" for a writer that needs none
	name   string // of the writer's row
	number int64  // of the transaction under way
	at     int64  // when it began
}

func newMySQLProtocol(db *sql.DB, opts Options, turn string) *mysqlProtocol {
	return &mysqlProtocol{db: db, opts: opts, turn: turn, name: randomName()}
}

func (p *mysqlProtocol) begin(ctx context.Context, s *session) (func() time.Time, error) {
	q := mysqlquery.New(s)
	if err := s.exec(ctx, "START TRANSACTION"); err != nil {
		return nil, err
	}
	if p.turn != "" {
		if _, err := q.TakeTurn(ctx, p.turn); err != nil {
			return nil, fmt.Errorf("take the turn: %w", err)
		}
	}
	us, err := q.DatabaseNow(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the database's clock: %w", err)
	}
	if err := p.mark(ctx, q, us); err != nil {
		return nil, fmt.Errorf("number the transaction: %w", err)
	}
	if p.opts.Clock != nil {
		return p.opts.Clock, nil
	}
	now := moment(us)
	return func() time.Time { return now }, nil
}

// oldMark is the age from which a mark belongs to a process that is no more.
const oldMark = 24 * time.Hour

func (p *mysqlProtocol) mark(ctx context.Context, q *mysqlquery.Queries, now int64) error {
	p.number++
	p.at = now
	rows, err := q.SetMark(ctx, mysqlquery.SetMarkParams{Number: p.number, Now: now, Writer: p.name})
	if err != nil || rows == 1 {
		return err
	}
	if _, err := q.DropOldMarks(ctx, now-oldMark.Microseconds()); err != nil {
		return err
	}
	if _, err := q.DropOldNews(ctx, now-oldMark.Microseconds()); err != nil {
		return err
	}
	return q.InsertMark(ctx, mysqlquery.InsertMarkParams{Writer: p.name, Number: p.number, At: now})
}

func (p *mysqlProtocol) announce(ctx context.Context, s *session) error {
	if err := mysqlquery.New(s).CountChange(ctx, mysqlquery.CountChangeParams{Writer: p.name, Now: p.at}); err != nil {
		return fmt.Errorf("count the change: %w", err)
	}
	return nil
}

// settle reads back what became of a COMMIT whose reply was lost. The old
// session is ended first; the lock on the writer's row then comes free when
// its transaction has ended, one way or the other.
func (p *mysqlProtocol) settle(ctx context.Context, s *session, failure error) error {
	if errorNumber(failure) != 0 {
		return failure // the server itself says that it did not commit
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		number, err := p.readBack(ctx, s.id)
		switch {
		case err == nil && number == p.number:
			p.opts.Logger.Info("ledger commit took effect, its reply was lost", "error", failure)
			return nil
		case err == nil:
			return failure // it did not
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w: %w", errUnknown, failure, err)
		}
	}
}

func (p *mysqlProtocol) readBack(ctx context.Context, old int64) (number int64, err error) {
	conn, err := p.db.Conn(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	// It may have ended by itself, or a proxy has numbers of its own: the row's
	// lock decides, this only makes it come sooner.
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", old)); err != nil {
		p.opts.Logger.Debug("the lost connection could not be ended", "error", err)
	}
	number, err = mysqlquery.New(conn).ReadMark(ctx, p.name)
	if absent(err) {
		return 0, nil // its first transaction, which would have made the row
	}
	return number, err
}

// end drops the writer's rows.
func (p *mysqlProtocol) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, connectWait)
	defer cancel()
	q := mysqlquery.New(p.db)
	for _, drop := range []func(context.Context, string) (int64, error){q.DropMark, q.DropNews} {
		_, err := drop(ctx, p.name)
		for errorNumber(err) == errDeadlock && ctx.Err() == nil { // others begin and end beside it
			_, err = drop(ctx, p.name)
		}
		if err != nil {
			p.opts.Logger.Debug("the writer's mark stays for a day", "error", err)
		}
	}
}
