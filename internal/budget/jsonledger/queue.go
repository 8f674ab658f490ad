package jsonledger

import (
	"context"
	"fmt"
	"sort"
	"time"

	"modeldock.io/internal/budget"
)

// decision is what one waiting request gets, given those before it.
type decision struct {
	request budget.Reservation
	reason  budget.Reason
	behind  *budget.Ref
}

// decide goes through the queue in the published order. Every decision is
// derived anew from the list of those before it; nothing is carried along.
func (s *state) decide(now time.Time, headWait time.Duration) []decision {
	var before []decision
	for _, r := range s.waiting() {
		d := s.decideOne(r, before, now, headWait)
		before = append(before, d)
	}
	return before
}

// waiting lists the waiting requests, higher priority first, then arrival.
func (s *state) waiting() []budget.Reservation {
	var queue []budget.Reservation
	for _, r := range s.Reservations {
		if r.State == budget.Waiting {
			queue = append(queue, r)
		}
	}
	sort.SliceStable(queue, func(i, j int) bool { return queue[i].Priority > queue[j].Priority })
	return queue
}

func (s *state) decideOne(r budget.Reservation, before []decision, now time.Time, headWait time.Duration) decision {
	t, p := *s.tenant(r.Tenant), *s.pool(r.Pool)
	var tenantHead, poolHead *budget.Ref
	for i := range before {
		b := before[i]
		old := now.Sub(b.request.CreatedAt) >= headWait
		if b.reason == budget.AwaitingAdmission && b.request.Tenant == r.Tenant {
			t.Used += b.request.Need()
		}
		if b.reason == budget.AwaitingAdmission && b.request.Pool == r.Pool {
			p.Used += b.request.Need()
		}
		if b.reason == budget.QuotaBlocked && old && b.request.Tenant == r.Tenant && tenantHead == nil {
			tenantHead = &before[i].request.Ref
		}
		if b.reason == budget.PoolBlocked && old && b.request.Pool == r.Pool && poolHead == nil {
			poolHead = &before[i].request.Ref
		}
	}
	switch {
	case !r.ExpiresAt.After(now):
		return decision{r, budget.TTLElapsed, nil}
	case r.Need() > t.Cap:
		return decision{r, budget.ExceedsQuota, nil}
	case r.Need() > p.Cap:
		return decision{r, budget.ExceedsPool, nil}
	case tenantHead != nil:
		return decision{r, budget.QueuedBehind, tenantHead}
	case t.Used+r.Need() > t.Cap:
		return decision{r, budget.QuotaBlocked, nil}
	case poolHead != nil:
		return decision{r, budget.QueuedBehind, poolHead}
	case p.Used+r.Need() > p.Cap:
		return decision{r, budget.PoolBlocked, nil}
	}
	return decision{r, budget.AwaitingAdmission, nil}
}

// reserve moves a waiting request to reserved with its debit and its intent.
func (s *state) reserve(ref budget.Ref, now time.Time) budget.Reservation {
	r := s.reservation(ref)
	r.State, r.Held, r.ReservedAt = budget.Reserved, r.Need(), now
	r.Funded = int(r.Held / r.Cost)
	r.Revision++
	s.move(*r, budget.OpReserve, r.Held, now)
	s.intend(*r, budget.Apply, r.Funded, now)
	return *r
}

// move debits or credits r's tenant and pool and writes the journal.
func (s *state) move(r budget.Reservation, op budget.Op, slots int64, now time.Time) {
	s.tenant(r.Tenant).Used += slots
	s.pool(r.Pool).Used += slots
	s.Next.Journal++
	s.Journal = append(s.Journal, budget.Entry{Ref: r.Ref, Seq: s.Next.Journal, Pool: r.Pool, Op: op, Revision: r.Revision, Slots: slots, At: now})
	s.changed("request", r.Ref, r.Revision)
	s.changed("quota", budget.Ref{Tenant: r.Tenant}, 0)
	s.changed("quota", budget.Ref{ID: r.Pool}, 0)
}

// Standing explains why one request waits.
func (l *Ledger) Standing(ctx context.Context, ref budget.Ref) (budget.Standing, error) {
	if err := l.view(ctx, func(s *state) error {
		r := s.reservation(ref)
		if r == nil {
			return budget.ErrNotFound
		}
		if r.State != budget.Waiting {
			return fmt.Errorf("%w: request %s/%s does not wait, it is %s", budget.ErrFinal, ref.Tenant, ref.ID, r.State)
		}
		return nil
	}); err != nil {
		return budget.Standing{}, err
	}
	all, err := l.Standings(ctx, []budget.Ref{ref})
	return all[ref], err
}

// Standings explains many requests.
func (l *Ledger) Standings(ctx context.Context, refs []budget.Ref) (map[budget.Ref]budget.Standing, error) {
	out := map[budget.Ref]budget.Standing{}
	err := l.view(ctx, func(s *state) error {
		decided := s.decide(l.now(), l.opts.HeadWait)
		for _, ref := range refs {
			for i, d := range decided {
				if d.request.Ref == ref {
					out[ref] = s.standing(d, decided[:i])
				}
			}
		}
		return nil
	})
	return out, err
}

func (s *state) standing(d decision, before []decision) budget.Standing {
	t, p := s.tenant(d.request.Tenant), s.pool(d.request.Pool)
	st := budget.Standing{
		Reason: d.reason, Need: d.request.Need(), Behind: d.behind,
		TenantUsed: t.Used, TenantCap: t.Cap, Pool: p.Name, PoolUsed: p.Used, PoolCap: p.Cap,
	}
	for _, b := range before {
		if b.request.Pool == d.request.Pool && b.reason != budget.TTLElapsed {
			st.Ahead++
		}
	}
	tenant := fmt.Sprintf("tenant %s holds %d of %d slots", t.Name, t.Used, t.Cap)
	pool := fmt.Sprintf("pool %s holds %d of %d slots", p.Name, p.Used, p.Cap)
	switch d.reason {
	case budget.QuotaBlocked:
		st.Message = fmt.Sprintf("%s; this request needs %d", tenant, st.Need)
	case budget.PoolBlocked:
		st.Message = fmt.Sprintf("%s; this request needs %d", pool, st.Need)
	default:
		st.Message = fmt.Sprintf("%s, %s; this request needs %d", tenant, pool, st.Need)
	}
	return st
}
