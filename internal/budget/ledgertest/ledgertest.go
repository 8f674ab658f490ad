// Package ledgertest is the conformance suite of account 1: every ledger
// passes the same tests, which ask only through the seam budget.Ledger (and
// evidence.Store). A ledger's own package calls Run, and Compare with the
// reference ledger as the oracle.
package ledgertest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/modelspec"
)

// Opener opens a fresh, empty ledger with the default head wait; the suite
// closes it.
type Opener func(t *testing.T, clock func() time.Time) budget.Ledger

// Run runs the whole suite.
func Run(t *testing.T, open Opener) {
	for _, part := range []struct {
		name string
		run  func(t *testing.T, open Opener)
	}{
		{"submit", runSubmit}, {"admit", runAdmit}, {"head wait", runHeadWait}, {"standing", runStanding},
		{"expire", runExpire}, {"release", runRelease}, {"patch", runPatch}, {"grow", runGrow}, {"shrink", runShrink}, {"outbox", runOutbox}, {"binding", runBinding},
		{"quota", runQuota}, {"access", runAccess}, {"audit", runAudit}, {"evidence", runEvidence}, {"race", runRace}, {"copy", runCopy},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.run(t, open)
		})
	}
}

// Clock is a clock that only moves when told to.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock starts at a fixed moment.
func NewClock() *Clock {
	return &Clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
}

// Now is the present moment of this clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// bundle is one fresh ledger with a clock of its own.
type bundle struct {
	*testing.T
	budget.Ledger
	ctx   context.Context //nolint:containedctx // lives as long as the one test
	clock *Clock
}

// setup opens a ledger with pool "default" of the given size; when the test
// ends every invariant must hold, and a copy must be one that can be taken in.
func setup(t *testing.T, open Opener, slots int64) *bundle {
	t.Helper()
	clock := NewClock()
	b := &bundle{T: t, Ledger: open(t, clock.Now), ctx: t.Context(), clock: clock}
	t.Cleanup(func() {
		b.ctx = context.Background() // the test's own has ended
		b.clean()
		b.importable()
		if err := b.Close(); err != nil {
			t.Errorf("close the ledger: %v", err)
		}
	})
	b.pool("default", slots)
	return b
}

func (b *bundle) clean() {
	b.Helper()
	report, err := b.Verify(b.ctx)
	b.ok(err)
	for _, v := range report.Violations {
		b.Errorf("%s: %s: %s", v.Invariant, v.Subject, v.Message)
	}
}

func (b *bundle) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatalf("unexpected error: %v", err)
	}
}

// is fails unless err is target.
func (b *bundle) is(err, target error) {
	b.Helper()
	if !errors.Is(err, target) {
		b.Fatalf("got error %v, want %v", err, target)
	}
}

func equal[T comparable](b *bundle, what string, got, want T) {
	b.Helper()
	if got != want {
		b.Fatalf("%s is %v, want %v", what, got, want)
	}
}

func (b *bundle) pool(name string, slots int64) {
	b.Helper()
	_, err := b.SetPool(b.ctx, name, slots)
	b.ok(err)
}

func (b *bundle) quota(tenant string, slots int64) {
	b.Helper()
	_, err := b.SetQuota(b.ctx, tenant, slots)
	b.ok(err)
}

// submission is a plain request in pool "default".
func submission(tenant, id string, cost int64, priority int) budget.Submission {
	return budget.Submission{
		Ref: budget.Ref{Tenant: tenant, ID: id}, Cost: cost, Priority: priority,
		Pool: budget.DefaultPool, TTL: budget.DefaultTTL, Model: modelspec.Default(id),
	}
}

func (b *bundle) submit(tenant, id string, cost int64, priority int) budget.Reservation {
	b.Helper()
	r, err := b.Submit(b.ctx, submission(tenant, id, cost, priority))
	b.ok(err)
	return r
}

func (b *bundle) get(tenant, id string) budget.Reservation {
	b.Helper()
	r, err := b.Get(b.ctx, budget.Ref{Tenant: tenant, ID: id})
	b.ok(err)
	return r
}

// state is of a request of team-a.
func (b *bundle) state(id string, want budget.State) {
	b.Helper()
	equal(b, "state of team-a/"+id, b.get("team-a", id).State, want)
}

// admit runs one round and returns the ids it admitted, in order.
func (b *bundle) admit() []string {
	b.Helper()
	admitted, err := b.Admit(b.ctx, 0)
	b.ok(err)
	ids := make([]string, 0, len(admitted))
	for _, r := range admitted {
		ids = append(ids, r.ID)
	}
	return ids
}

func (b *bundle) standing(tenant, id string) budget.Standing {
	b.Helper()
	s, err := b.Standing(b.ctx, budget.Ref{Tenant: tenant, ID: id})
	b.ok(err)
	return s
}

func (b *bundle) reason(tenant, id string, want budget.Reason) budget.Standing {
	b.Helper()
	s := b.standing(tenant, id)
	if s.Reason != want {
		b.Fatalf("%s/%s waits for %s (%s), want %s", tenant, id, s.Reason, s.Message, want)
	}
	if s.Message == "" {
		b.Fatalf("%s/%s: reason %s has no message", tenant, id, s.Reason)
	}
	return s
}

// used fails unless the tenant and the pool hold these many slots.
func (b *bundle) used(tenant string, slots int64, pool string, poolSlots int64) {
	b.Helper()
	t, err := b.Tenant(b.ctx, tenant)
	b.ok(err)
	equal(b, "used of tenant "+tenant, t.Used, slots)
	pools, err := b.Pools(b.ctx)
	b.ok(err)
	for _, p := range pools {
		if p.Name == pool {
			equal(b, "used of pool "+pool, p.Used, poolSlots)
		}
	}
}

// claimOne leases exactly one intent.
func (b *bundle) claimOne(owner string) budget.Intent {
	b.Helper()
	got := b.claim(owner)
	if len(got) != 1 {
		b.Fatalf("%s claimed %d intents, want 1", owner, len(got))
	}
	return got[0]
}

func (b *bundle) claim(owner string) []budget.Intent {
	b.Helper()
	got, err := b.Claim(b.ctx, owner, 100, time.Minute)
	b.ok(err)
	return got
}

func object(uid string) budget.Object {
	return budget.Object{Namespace: "models", Name: "md-" + uid, UID: uid}
}

// reserved submits one request of team-a, which has room, and admits it.
func (b *bundle) reserved(id string, cost int64) budget.Reservation {
	b.Helper()
	b.submit("team-a", id, cost, 50)
	b.admit()
	b.state(id, budget.Reserved)
	return b.get("team-a", id)
}

// credit walks a reserved request through its release.
func (b *bundle) credit(ref budget.Ref) {
	b.Helper()
	_, err := b.RequestRelease(b.ctx, ref)
	b.ok(err)
	for _, in := range b.claim("crediting") {
		if in.Ref == ref && in.Op == budget.Delete {
			b.ok(b.DeleteDelivered(b.ctx, in))
		} else {
			b.ok(b.Defer(b.ctx, in, "", 0)) // somebody else's work
		}
	}
	_, err = b.Credit(b.ctx, ref, false)
	b.ok(err)
}
