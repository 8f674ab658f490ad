package sqlledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"modeldock.io/internal/budget"
)

// ownReaders are connections that calls from outside never take: the loops of
// the product read on them however many callers wait.
const ownReaders = 2

// readers is the read pool: a fixed number of connections, each with its own
// prepared statements. A reader holds exactly one and asks for no second, so
// that readers cannot wait for each other in a circle.
type readers struct {
	db      *sql.DB
	dialect dialect
	free    chan *session // one without a connection gets a new one when it is next used
	outside chan struct{} // held by each reader from outside: see budget.FromOutside
	all     []*session
}

// openReaders opens the pool's connections at once: outside for callers from
// outside as well, own for the product's loops alone.
func openReaders(ctx context.Context, db *sql.DB, d dialect, outside, own int) (*readers, error) {
	p := &readers{db: db, dialect: d, free: make(chan *session, outside+own), outside: make(chan struct{}, outside)}
	for range outside + own {
		s := &session{}
		p.all = append(p.all, s)
		p.free <- s
		if err := p.connect(ctx, s); err != nil {
			p.close()
			return nil, fmt.Errorf("open a read connection: %w", err)
		}
	}
	return p, nil
}

func (p *readers) connect(ctx context.Context, s *session) error {
	conn, err := p.db.Conn(ctx)
	if err != nil {
		return err
	}
	fresh, err := p.dialect.session(ctx, conn, nil)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	*s = *fresh
	return nil
}

// take waits for a free reader, and returns how its user gives it back.
func (p *readers) take(ctx context.Context) (s *session, release func(), err error) {
	left := func() error { return fmt.Errorf("wait for a read connection: %w", ctx.Err()) }
	leave := func() {}
	if budget.IsFromOutside(ctx) {
		select {
		case p.outside <- struct{}{}:
			leave = func() { <-p.outside }
		case <-ctx.Done():
			return nil, nil, left()
		}
	}
	select {
	case s := <-p.free:
		return s, func() { p.free <- s; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, nil, left()
	}
}

// statement runs f, which asks one statement, without a transaction around
// it: databases show a statement one state of the ledger anyway, and on a
// server the two ends of a transaction are two more round trips. Over a lost
// connection it is asked once more. On a connection that an interrupted
// caller left broken, the next one finds that out.
func (p *readers) statement(ctx context.Context, f func(s *session) error) error {
	s, release, err := p.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	for again := false; ; again = true {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("not asked: %w", err)
		}
		if s.conn == nil {
			if err := p.connect(context.WithoutCancel(ctx), s); err != nil {
				return fmt.Errorf("open a read connection: %w", err)
			}
		}
		err := s.alone(f)
		if !p.dialect.isLost(err) {
			return err
		}
		s.discard()
		if again {
			return err
		}
	}
}

// alone holds f to its one statement: of two, the second may see a later state.
func (s *session) alone(f func(s *session) error) error {
	before := s.asked
	if err := f(s); err != nil {
		return err
	}
	if n := s.asked - before; n > 1 {
		return fmt.Errorf("%d statements were asked where 1 must be: only a snapshot shows all of them the same state", n)
	}
	return nil
}

// snapshot runs f in one read transaction, so that all its queries see the
// same state of the ledger.
func (p *readers) snapshot(ctx context.Context, f func(s *session) error) error {
	s, release, err := p.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	return p.within(ctx, s, f)
}

// within is snapshot on a reader that was taken.
func (p *readers) within(ctx context.Context, s *session, f func(s *session) error) error {
	// The transaction's ends run under a context of their own: a reader that
	// left must not leave an old snapshot open behind him.
	own := context.WithoutCancel(ctx)
	if err := p.begin(own, s); err != nil {
		return fmt.Errorf("begin a snapshot: %w", err)
	}
	err := f(s)
	// An interrupted query has ended the transaction already.
	end := s.exec(own, "ROLLBACK")
	if p.dialect.isLost(end) {
		s.discard()
	}
	if err == nil && end != nil {
		err = fmt.Errorf("end the snapshot: %w", end)
	}
	return err
}

// begin opens the transaction, on a new connection where the old one broke
// while it was idle.
func (p *readers) begin(ctx context.Context, s *session) error {
	if s.conn != nil {
		err := p.dialect.beginSnapshot(ctx, s)
		if !p.dialect.isLost(err) {
			return err
		}
		s.discard()
	}
	if err := p.connect(ctx, s); err != nil {
		return err
	}
	return p.dialect.beginSnapshot(ctx, s)
}

// discard closes the connection for good instead of giving it back to the pool.
func (s *session) discard() {
	for _, st := range s.stmts {
		_ = st.Close()
	}
	_ = s.conn.Raw(func(any) error { return driver.ErrBadConn })
	s.conn = nil
}

// close waits for the readers at work; those who come later get an error. No
// connection is given back: one that broke while nobody used it would make an
// error of closing the database.
func (p *readers) close() {
	for range p.all {
		<-p.free
	}
	for _, s := range p.all {
		if s.conn != nil {
			s.discard()
		}
		p.free <- s
	}
}
