package ledgertest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/modelspec"
)

// Compare runs random sequences of operations on a ledger and on the oracle
// side by side, with one clock, and fails at the first answer or the first
// row that differs.
func Compare(t *testing.T, open, oracle Opener) {
	rapid.Check(t, func(rt *rapid.T) {
		p := newPair(t, rt, open, oracle)
		defer p.close()
		rt.Repeat(map[string]func(*rapid.T){
			"submit": p.submit, "admit": p.admit, "advance": p.advance, "expire": p.expire,
			"release": p.release, "claim": p.claim, "report": p.report, "defer": p.deferOne,
			"credit": p.credit, "patch": p.patch, "grow": p.grow, "shrink": p.shrink, "credit shrink": p.creditShrink, "quota": p.quota, "pool": p.pool, "ready": p.ready,
			"": p.same,
		})
	})
}

// pair is the ledger under test and the oracle.
type pair struct {
	rt        *rapid.T
	t         *testing.T
	clock     *Clock
	got, want budget.Ledger
	claimed   []budget.Intent // every intent ever leased, stale ones included
	steps     int
}

func newPair(t *testing.T, rt *rapid.T, open, oracle Opener) *pair {
	clock := NewClock()
	p := &pair{rt: rt, t: t, clock: clock, got: open(t, clock.Now), want: oracle(t, clock.Now)}
	p.start()
	return p
}

func (p *pair) close() {
	if err := errors.Join(p.got.Close(), p.want.Close()); err != nil {
		p.rt.Errorf("close: %v", err)
	}
}

func (p *pair) start() {
	p.both(p.rt, "set pools", func(l budget.Ledger) (any, error) {
		_, err := l.SetPool(p.t.Context(), "default", 6)
		if err != nil {
			return nil, err
		}
		return l.SetPool(p.t.Context(), "other", 3)
	})
	for i := range 3 {
		p.both(p.rt, "set quotas", func(l budget.Ledger) (any, error) { return l.SetQuota(p.t.Context(), tenantName(i), int64(i+2)) })
	}
}

func tenantName(i int) string { return fmt.Sprint("team-", i) }

// both runs one operation on both ledgers and compares the answers.
func (p *pair) both(t *rapid.T, what string, op func(l budget.Ledger) (any, error)) any {
	got, gotErr := op(p.got)
	want, wantErr := op(p.want)
	if kindOf(gotErr) != kindOf(wantErr) {
		t.Fatalf("%s: the ledger answered %v, the oracle %v", what, gotErr, wantErr)
	}
	if gotErr == nil && !sameAnswer(got, want) {
		t.Fatalf("%s:\nledger %+v\noracle %+v", what, got, want)
	}
	return got
}

// sameAnswer takes nil and empty lists for the same. Arrival numbers may have
// gaps: their order is what counts, see compareRows.
func sameAnswer(got, want any) bool {
	got, want = withoutNumbers(got), withoutNumbers(want)
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	if g.Kind() == reflect.Slice && w.Kind() == reflect.Slice && g.Len() == 0 && w.Len() == 0 {
		return true
	}
	return reflect.DeepEqual(got, want)
}

func withoutNumbers(answer any) any {
	switch v := answer.(type) {
	case budget.Reservation:
		v.Seq = 0
		return v
	case budget.Waiters:
		v.Requests = withoutNumbers(v.Requests).([]budget.Reservation)
		return v
	case []budget.Reservation:
		all := slices.Clone(v)
		for i := range all {
			all[i].Seq = 0
		}
		return all
	}
	return answer
}

// kindOf names an error by what a caller can tell apart.
func kindOf(err error) string {
	if err == nil {
		return ""
	}
	for _, known := range []error{
		budget.ErrNotFound, budget.ErrFinal, budget.ErrReleaseRequested, budget.ErrNotReleasable, budget.ErrNotReserved, budget.ErrLeaseLost, budget.ErrUnavailable,
	} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	var conflict *budget.ConflictError
	var inUse *budget.ModelInUseError
	var pool *budget.UnknownPoolError
	var bound *budget.BoundElsewhereError
	var stale *budget.StaleGenerationError
	var blocked *budget.BlockedError
	var replicas *budget.ReplicaBoundError
	var field *modelspec.FieldError
	switch {
	case errors.As(err, &stale):
		return fmt.Sprintf("stale %+v", *stale)
	case errors.As(err, &blocked):
		return fmt.Sprintf("blocked %+v", *blocked)
	case errors.As(err, &replicas):
		return fmt.Sprintf("replicas %+v", *replicas)
	case errors.As(err, &field):
		return fmt.Sprintf("field %+v", *field)
	case errors.As(err, &conflict):
		return fmt.Sprintf("conflict %+v", *conflict)
	case errors.As(err, &inUse):
		return fmt.Sprintf("in use %+v", *inUse)
	case errors.As(err, &pool):
		return fmt.Sprintf("pool %+v", *pool)
	case errors.As(err, &bound):
		return fmt.Sprintf("bound %+v", *bound)
	}
	return "other: " + err.Error()
}

func (p *pair) submit(t *rapid.T) {
	id := fmt.Sprint("r", rapid.IntRange(0, 11).Draw(t, "id"))
	s := submission(tenantName(rapid.IntRange(0, 3).Draw(t, "tenant")), id, rapid.Int64Range(1, 4).Draw(t, "cost"), rapid.IntRange(0, 2).Draw(t, "priority"))
	s.Pool = rapid.SampledFrom([]string{"default", "default", "default", "other", "nowhere"}).Draw(t, "pool")
	s.TTL = rapid.SampledFrom([]time.Duration{time.Minute, time.Hour}).Draw(t, "ttl")
	s.Model.Replicas = modelspec.Replicas{Min: rapid.IntRange(0, 2).Draw(t, "min"), Max: 2}
	if rapid.IntRange(0, 4).Draw(t, "shared name") == 0 {
		s.Model.Name = "shared"
	}
	p.both(t, "submit", func(l budget.Ledger) (any, error) { return l.Submit(p.t.Context(), s) })
}

func (p *pair) admit(t *rapid.T) {
	limit := rapid.IntRange(0, 2).Draw(t, "limit")
	p.both(t, "admit", func(l budget.Ledger) (any, error) { return l.Admit(p.t.Context(), limit) })
}

func (p *pair) advance(t *rapid.T) {
	p.clock.Advance(rapid.SampledFrom([]time.Duration{time.Microsecond, time.Second, 30 * time.Second, budget.DefaultHeadWait}).Draw(t, "by"))
}

func (p *pair) expire(t *rapid.T) {
	p.both(t, "expire", func(l budget.Ledger) (any, error) { return l.Expire(p.t.Context()) })
}

func (p *pair) ref(t *rapid.T) budget.Ref {
	all, err := p.want.List(p.t.Context(), budget.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		return budget.Ref{Tenant: "team-0", ID: "nothing"}
	}
	return rapid.SampledFrom(all).Draw(t, "request").Ref
}

func (p *pair) release(t *rapid.T) {
	ref := p.ref(t)
	p.both(t, "release", func(l budget.Ledger) (any, error) { return l.RequestRelease(p.t.Context(), ref) })
}

func (p *pair) credit(t *rapid.T) {
	ref, force := p.ref(t), rapid.IntRange(0, 5).Draw(t, "force") == 0
	p.both(t, "credit", func(l budget.Ledger) (any, error) { return l.Credit(p.t.Context(), ref, force) })
}

func (p *pair) claim(t *rapid.T) {
	owner, n := rapid.SampledFrom([]string{"relay-1", "relay-2"}).Draw(t, "owner"), rapid.IntRange(1, 4).Draw(t, "n")
	claimed := p.both(t, "claim", func(l budget.Ledger) (any, error) { return l.Claim(p.t.Context(), owner, n, 20*time.Second) })
	p.claimed = append(p.claimed, claimed.([]budget.Intent)...)
}

func (p *pair) intent(t *rapid.T) (budget.Intent, bool) {
	if len(p.claimed) == 0 {
		return budget.Intent{}, false
	}
	// The latest leases are the likely ones to be reported; old ones are stale reports.
	recent := p.claimed[max(0, len(p.claimed)-6):]
	return rapid.SampledFrom(recent).Draw(t, "intent"), true
}

func (p *pair) report(t *rapid.T) {
	in, ok := p.intent(t)
	if !ok {
		return
	}
	uid := rapid.SampledFrom([]string{in.Tenant + in.ID, in.Tenant + in.ID, in.Tenant + in.ID, "foreign"}).Draw(t, "uid")
	p.both(t, "report", func(l budget.Ledger) (any, error) {
		if in.Op == budget.Delete {
			return nil, l.DeleteDelivered(p.t.Context(), in)
		}
		return nil, l.Delivered(p.t.Context(), in, object(uid))
	})
}

func (p *pair) deferOne(t *rapid.T) {
	if in, ok := p.intent(t); ok {
		p.both(t, "defer", func(l budget.Ledger) (any, error) { return nil, l.Defer(p.t.Context(), in, "away", time.Second) })
	}
}

func (p *pair) quota(t *rapid.T) {
	name, limit := tenantName(rapid.IntRange(0, 3).Draw(t, "tenant")), rapid.Int64Range(0, 8).Draw(t, "cap")
	p.both(t, "quota", func(l budget.Ledger) (any, error) { return l.SetQuota(p.t.Context(), name, limit) })
}

func (p *pair) pool(t *rapid.T) {
	name, limit := rapid.SampledFrom([]string{"default", "other"}).Draw(t, "pool"), rapid.Int64Range(0, 12).Draw(t, "cap")
	p.both(t, "pool", func(l budget.Ledger) (any, error) { return l.SetPool(p.t.Context(), name, limit) })
}

func (p *pair) ready(t *rapid.T) {
	ref := p.ref(t)
	uid := "md-" + ref.Tenant + ref.ID
	p.both(t, "ready", func(l budget.Ledger) (any, error) {
		return nil, errors.Join(l.MarkReady(p.t.Context(), ref, uid), l.MarkGone(p.t.Context(), ref, uid))
	})
}

// same compares everything that can be read after every third step, and holds
// the ledger to its invariants.
func (p *pair) same(t *rapid.T) {
	if p.steps++; p.steps%3 != 0 {
		return
	}
	p.compareRows(t)
}

func (p *pair) compareRows(t *rapid.T) {
	ctx := p.t.Context()
	p.both(t, "tenants", func(l budget.Ledger) (any, error) { return l.Tenants(ctx) })
	p.both(t, "pools", func(l budget.Ledger) (any, error) { return l.Pools(ctx) })
	rows := p.both(t, "list", func(l budget.Ledger) (any, error) { return l.List(ctx, budget.Filter{}) })
	p.both(t, "waiters", func(l budget.Ledger) (any, error) { return l.Waiting(ctx, 3) })
	var waiting []budget.Ref
	last := int64(0)
	for _, r := range rows.([]budget.Reservation) {
		if r.Seq <= last {
			t.Fatalf("%s has arrival number %d after %d", r.ID, r.Seq, last)
		}
		last = r.Seq
		p.both(t, "journal", func(l budget.Ledger) (any, error) { return l.Journal(ctx, r.Ref) })
		p.both(t, "intents", func(l budget.Ledger) (any, error) { return l.Intents(ctx, r.Ref) })
		p.both(t, "binding", func(l budget.Ledger) (any, error) { return l.Binding(ctx, r.Ref) })
		waiting = append(waiting, r.Ref)
	}
	p.both(t, "live bindings", func(l budget.Ledger) (any, error) { return l.LiveBindings(ctx) })
	for _, f := range []budget.Filter{{ShrinkPending: true}, {ReleasePending: true}, {ShrinkPending: true, State: budget.Waiting}, {ShrinkPending: true, Tenant: "team-1"}} {
		p.both(t, "filter", func(l budget.Ledger) (any, error) { return l.List(ctx, f) })
	}
	p.both(t, "standings", func(l budget.Ledger) (any, error) {
		all, err := l.Standings(ctx, waiting)
		for ref, s := range all {
			s.Message = "" // the words are each ledger's own
			all[ref] = s
		}
		return all, err
	})
	report, err := p.got.Verify(ctx)
	if err != nil || !report.Clean() {
		t.Fatalf("verify: %v, %+v", err, report.Violations)
	}
}
