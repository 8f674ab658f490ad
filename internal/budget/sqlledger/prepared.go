package sqlledger

import (
	"context"
	"database/sql"
	"strings"
	"sync"

	"modeldock.io/internal/budget/sqlledger/sqlitequery"
)

// session is the writer's connection with every statement kept prepared:
// compiling a statement costs more than running it.
type session struct {
	conn   *sql.Conn
	stmts  map[string]*sql.Stmt
	before func(string) error
}

var _ sqlitequery.DBTX = (*session)(nil)

func newSession(conn *sql.Conn, before func(string) error) *session {
	return &session{conn: conn, stmts: map[string]*sql.Stmt{}, before: before}
}

func (s *session) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	if s.before != nil {
		if err := s.before(query); err != nil {
			return nil, err
		}
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
	st, err := s.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	return st.ExecContext(ctx, args...)
}

func (s *session) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	return s.conn.PrepareContext(ctx, query)
}

func (s *session) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	st, err := s.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	return st.QueryContext(ctx, args...)
}

func (s *session) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	st, err := s.stmt(ctx, query)
	if err != nil {
		// A Row cannot carry our error: an ended context makes one that fails.
		ended, cancel := context.WithCancelCause(ctx)
		cancel(err)
		return s.conn.QueryRowContext(ended, query, args...)
	}
	return st.QueryRowContext(ctx, args...)
}

// preparedPool keeps the read pool's statements prepared on every connection.
type preparedPool struct {
	db    *sql.DB
	mu    sync.Mutex
	stmts map[string]*sql.Stmt
}

func newPreparedPool(db *sql.DB) *preparedPool {
	return &preparedPool{db: db, stmts: map[string]*sql.Stmt{}}
}

func (p *preparedPool) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if st := p.stmts[query]; st != nil {
		return st, nil
	}
	st, err := p.db.PrepareContext(ctx, strings.TrimSpace(query))
	if err != nil {
		return nil, err
	}
	p.stmts[query] = st
	return st, nil
}

func (p *preparedPool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, st := range p.stmts {
		_ = st.Close() // the pool is closed right after
	}
	clear(p.stmts)
}

// snapshot is one read transaction over the pool's prepared statements.
type snapshot struct {
	pool *preparedPool
	tx   *sql.Tx
}

var _ sqlitequery.DBTX = snapshot{}

func (s snapshot) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return s.tx.ExecContext(ctx, query, args...)
}

func (s snapshot) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	return s.tx.PrepareContext(ctx, query)
}

func (s snapshot) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	st, err := s.pool.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.tx.StmtContext(ctx, st).QueryContext(ctx, args...)
}

func (s snapshot) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	st, err := s.pool.stmt(ctx, query)
	if err != nil {
		return s.tx.QueryRowContext(ctx, query, args...)
	}
	return s.tx.StmtContext(ctx, st).QueryRowContext(ctx, args...)
}
