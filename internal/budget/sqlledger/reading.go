package sqlledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// readers is the read pool: a fixed number of connections, each with its own
// prepared statements. A reader holds exactly one and asks for no second, so
// that readers cannot wait for each other in a circle.
type readers struct {
	free chan *session
	all  []*session
}

// openReaders opens the pool's connections at once.
func openReaders(ctx context.Context, db *sql.DB, n int) (*readers, error) {
	p := &readers{free: make(chan *session, n)}
	for range n {
		conn, err := db.Conn(ctx)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open a read connection: %w", err), p.close())
		}
		s := newSession(conn, nil)
		p.all = append(p.all, s)
		p.free <- s
	}
	return p, nil
}

// snapshot runs f in one read transaction, so that all its queries see the
// same state of the ledger.
func (p *readers) snapshot(ctx context.Context, f func(s *session) error) error {
	var s *session
	select {
	case s = <-p.free:
	case <-ctx.Done():
		return fmt.Errorf("wait for a read connection: %w", ctx.Err())
	}
	defer func() { p.free <- s }()
	// The transaction's ends run under a context of their own: a reader that
	// left must not leave an old snapshot open behind him.
	own := context.WithoutCancel(ctx)
	if err := s.exec(own, "BEGIN"); err != nil {
		return fmt.Errorf("begin a snapshot: %w", err)
	}
	err := f(s)
	// An interrupted query has ended the transaction already.
	if end := s.exec(own, "ROLLBACK"); err == nil && end != nil {
		err = fmt.Errorf("end the snapshot: %w", end)
	}
	return err
}

// close waits for the readers at work; those who come later get an error.
func (p *readers) close() error {
	var errs []error
	for range p.all {
		<-p.free
	}
	for _, s := range p.all {
		errs = append(errs, s.close())
		p.free <- s
	}
	return errors.Join(errs...)
}
