package sqlledger

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
)

// board explains waits. The reason of one request depends on all that stand
// before it, so that a walk along the whole queue answers everybody: all who
// asked before it began share it, and so do those who ask later as long as
// neither the ledger nor the time has changed anything. One walk runs at a
// time, on a connection of its own: it keeps no other reader waiting.
type board struct {
	reads  *readers     // one, whose holder has latest too
	asked  atomic.Int64 // calls so far
	walks  atomic.Int64
	latest *explained
}

// explained is the whole queue as one walk saw it.
type explained struct {
	standings map[budget.Ref]budget.Standing
	asked     int64 // calls before the walk began
	conn      *sql.Conn
	version   int64 // of the ledger, on conn
	known     bool
	from, to  time.Time // until when time alone changes nothing: to itself is outside
}

// Standing explains why one request waits.
func (l *Ledger) Standing(ctx context.Context, ref budget.Ref) (budget.Standing, error) {
	const what = "explain the wait"
	all, err := l.explain(ctx, what)
	if err != nil {
		return budget.Standing{}, err
	}
	if st, waits := all[ref]; waits {
		return st.Explained(), nil
	}
	return single(ctx, l, what, func(q queries) (none budget.Standing, err error) {
		row, err := q.GetReservation(ctx, sqlitequery.GetReservationParams{Tenant: ref.Tenant, ID: ref.ID})
		if err != nil {
			return none, found(err)
		}
		return none, refuse(fmt.Errorf("%w: request %s/%s does not wait, it is %s", budget.ErrFinal, ref.Tenant, ref.ID, row.State))
	})
}

// Standings explains many requests from one snapshot.
func (l *Ledger) Standings(ctx context.Context, refs []budget.Ref) (map[budget.Ref]budget.Standing, error) {
	out := make(map[budget.Ref]budget.Standing, len(refs))
	if len(refs) == 0 {
		return out, nil
	}
	all, err := l.explain(ctx, "explain the waits")
	for _, ref := range refs {
		if st, waits := all[ref]; waits {
			out[ref] = st.Explained()
		}
	}
	return out, err
}

// explain returns the standings of all who wait, which nobody may change. Those
// that are read get their words then: most never are.
func (l *Ledger) explain(ctx context.Context, what string) (map[budget.Ref]budget.Standing, error) {
	b := &l.board
	number := b.asked.Add(1)
	return readBy(ctx, l, func(ctx context.Context, f func(*session) error) error {
		s, release, err := b.reads.take(ctx)
		if err != nil {
			return err
		}
		defer release()
		if b.latest != nil && b.latest.asked >= number {
			return f(s) // that walk began after this call
		}
		asked := b.asked.Load()
		return b.reads.within(ctx, s, func(s *session) error {
			next, err := l.look(ctx, s)
			if err != nil {
				return err
			}
			next.asked = asked
			b.latest = next
			return f(s)
		})
	}, what, func(queries) (map[budget.Ref]budget.Standing, error) { return b.latest.standings, nil })
}

// look returns what is known already if it still holds, else what a new walk finds.
func (l *Ledger) look(ctx context.Context, s *session) (*explained, error) {
	q := l.dialect.queries(s)
	version, known, err := l.dialect.version(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("read the ledger's version: %w", err)
	}
	now, err := l.clock(ctx, q)
	if err != nil {
		return nil, err
	}
	if old := l.board.latest; old.holds(s.conn, version, known, now) {
		same := *old
		return &same, nil
	}
	next := &explained{conn: s.conn, version: version, known: known, from: now}
	return next, l.walk(ctx, q, next)
}

func (e *explained) holds(conn *sql.Conn, version int64, known bool, now time.Time) bool {
	return e != nil && e.known && known && e.conn == conn && e.version == version && !now.Before(e.from) && now.Before(e.to)
}

// walk explains the whole queue.
func (l *Ledger) walk(ctx context.Context, q queries, out *explained) error {
	tenantRows, err := q.ListTenants(ctx)
	if err != nil {
		return fmt.Errorf("read the quotas: %w", err)
	}
	poolRows, err := q.ListPools(ctx)
	if err != nil {
		return fmt.Errorf("read the pools: %w", err)
	}
	rows, err := q.WholeQueue(ctx)
	if err != nil {
		return fmt.Errorf("read the queue: %w", err)
	}
	l.board.walks.Add(1)
	now := out.from
	out.to = now.Add(time.Hour)
	out.standings = make(map[budget.Ref]budget.Standing, len(rows))
	queue := budget.NewQueue(quotaFigures(tenantRows), poolFigures(poolRows), now, l.opts.HeadWait)
	for _, row := range rows {
		r := request(row)
		out.standings[r.Ref] = queue.Next(r)
		for _, at := range []time.Time{r.CreatedAt.Add(l.opts.HeadWait), r.ExpiresAt} {
			if at.After(now) && at.Before(out.to) {
				out.to = at
			}
		}
	}
	return nil
}
