package sqlledger

import (
	"context"
	"database/sql"
	"strings"

	"modeldock.io/internal/budget/sqlledger/sqlitequery"
)

// session is one connection with every statement kept prepared: compiling a
// statement costs more than running it. One goroutine uses it at a time.
type session struct {
	conn   *sql.Conn
	stmts  map[string]*sql.Stmt // nil: the driver sends texts, nothing is prepared
	before func(string) error
	asked  int64 // statements so far
	id     int64 // the server's number for the connection, where there is a server
	step   int64 // from one automatic number to the next, where the server sets it
}

var _ sqlitequery.DBTX = (*session)(nil)

func newSession(conn *sql.Conn, before func(string) error) *session {
	return &session{conn: conn, stmts: map[string]*sql.Stmt{}, before: before}
}

// ask counts a statement and shows it to whoever traces, or injects a fault.
func (s *session) ask(query string) error {
	s.asked++
	if s.before == nil {
		return nil
	}
	return s.before(query)
}

// stmt returns the prepared statement, or nil if none are prepared.
func (s *session) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	if err := s.ask(query); err != nil || s.stmts == nil {
		return nil, err
	}
	if st := s.stmts[query]; st != nil {
		return st, nil
	}
	// The driver keeps only statements without anything behind them.
	st, err := s.conn.PrepareContext(ctx, strings.TrimSpace(query))
	if err != nil {
		return nil, err
	}
	s.stmts[query] = st
	return st, nil
}

// exec runs a statement without arguments and results.
func (s *session) exec(ctx context.Context, query string) error {
	_, err := s.ExecContext(ctx, query)
	return err
}

func (s *session) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	st, err := s.stmt(ctx, query) //nolint:sqlclosecheck // kept for the next run, closed with the session
	if err != nil {
		return nil, err
	}
	if st == nil {
		return s.conn.ExecContext(ctx, query, args...)
	}
	return st.ExecContext(ctx, args...)
}

func (s *session) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	return s.conn.PrepareContext(ctx, query)
}

func (s *session) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	st, err := s.stmt(ctx, query) //nolint:sqlclosecheck // kept for the next run, closed with the session
	if err != nil {
		return nil, err
	}
	if st == nil {
		return s.conn.QueryContext(ctx, query, args...)
	}
	return st.QueryContext(ctx, args...)
}

func (s *session) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	st, err := s.stmt(ctx, query) //nolint:sqlclosecheck // kept for the next run, closed with the session
	if err != nil {
		// A Row cannot carry our error: an ended context makes one that fails.
		ended, cancel := context.WithCancelCause(ctx)
		cancel(err)
		return s.conn.QueryRowContext(ended, query, args...)
	}
	if st == nil {
		return s.conn.QueryRowContext(ctx, query, args...)
	}
	return st.QueryRowContext(ctx, args...)
}
