package ledgertest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"modeldock.io/internal/budget"
)

func runShrink(t *testing.T, open Opener) {
	for name, run := range map[string]func(*bundle){
		"the lower count is told first, the slots come later": shrinkTells,
		"not below replicas.min":                              shrinkBound,
		"the credit needs every condition":                    shrinkConditions,
		"a credit of an older generation is refused":          shrinkMovedOn,
		"a release between the shrink and its credit":         shrinkReleased,
		"nothing to credit is no error":                       shrinkNothing,
		"thirty credits at once credit once":                  shrinkRace,
		"the filter finds who waits for its credit":           shrinkFilter,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, open, 10)
			b.quota("team-a", 8)
			run(b)
		})
	}
}

// grown is a delivered request of cost 2 with three funded replicas.
func (b *bundle) grown(id string) budget.Reservation {
	b.Helper()
	r := b.elastic(id, 2, 4)
	r, err := b.Grow(b.ctx, r.Ref, 3)
	b.ok(err)
	b.deliver(r.Ref, 2)
	return r
}

// deliver carries out the next n rows of one request.
func (b *bundle) deliver(ref budget.Ref, n int) {
	b.Helper()
	for range n {
		in := b.claimRef("relay", ref)
		if in.Op == budget.Delete {
			b.ok(b.DeleteDelivered(b.ctx, in))
		} else {
			b.ok(b.Delivered(b.ctx, in, object(ref.ID)))
		}
	}
}

func shrinkTells(b *bundle) {
	r := b.grown("x")
	b.clock.Advance(time.Second)
	got, err := b.Shrink(b.ctx, r.Ref, 1)
	b.ok(err)
	equal(b, "funded", got.Funded, 1)
	equal(b, "held", got.Held, 6)
	equal(b, "generation", got.Generation, 3)
	for _, n := range []int{1, 2, 9} { // there are no more
		again, err := b.Shrink(b.ctx, r.Ref, n)
		b.ok(err)
		equal(b, "revision", again.Revision, got.Revision)
	}
	rows := b.intents(r.Ref, 3)
	equal(b, "funded told", rows[2].Funded, 1)
	b.entries(r.Ref, 2, 4)
	b.used("team-a", 6, "default", 6)
	b.deliver(r.Ref, 1)
	b.used("team-a", 6, "default", 6)
	credited, err := b.CreditShrink(b.ctx, r.Ref, 3)
	b.ok(err)
	equal(b, "held", credited.Held, 2)
	equal(b, "funded", credited.Funded, 1)
	equal(b, "generation", credited.Generation, 3)
	equal(b, "revision", credited.Revision, got.Revision+1)
	entries := b.entries(r.Ref, 2, 4, -4)
	equal(b, "op", entries[2].Op, budget.OpShrink)
	equal(b, "revision", entries[2].Revision, credited.Revision)
	b.used("team-a", 2, "default", 2)
	b.credit(r.Ref)
	b.entries(r.Ref, 2, 4, -4, -2)
	equal(b, "funded", b.get("team-a", "x").Funded, 0)
}

func shrinkBound(b *bundle) {
	r := b.grown("x")
	r = b.patch(r, between(r, 2, 4))
	_, err := b.Shrink(b.ctx, r.Ref, 1)
	var bound *budget.ReplicaBoundError
	if !errors.As(err, &bound) || bound.Bound != 2 {
		b.Fatalf("got %v", err)
	}
	_, err = b.Shrink(b.ctx, budget.Ref{Tenant: "team-b", ID: "x"}, 1)
	b.is(err, budget.ErrNotFound)
	w := b.submit("team-a", "w", 9, 50)
	_, err = b.Shrink(b.ctx, w.Ref, 1)
	b.is(err, budget.ErrNotReserved)
}

func shrinkConditions(b *bundle) {
	r := b.grown("x")
	_, err := b.CreditShrink(b.ctx, budget.Ref{Tenant: "team-b", ID: "x"}, 3)
	b.is(err, budget.ErrNotFound)
	_, err = b.Shrink(b.ctx, r.Ref, 1)
	b.ok(err)
	refused := func(why string, generation int64) {
		b.Helper()
		_, err := b.CreditShrink(b.ctx, r.Ref, generation)
		if err == nil {
			b.Fatalf("credited although %s", why)
		}
		b.is(err, budget.ErrNotReleasable)
		b.used("team-a", 6, "default", 6)
	}
	refused("the lower count is undelivered", 3)
	in := b.claimOne("relay-1")
	refused("the lower count is being delivered", 3)
	b.ok(b.Defer(b.ctx, in, "away", time.Second))
	refused("the delivery failed", 3)
	b.clock.Advance(time.Second)
	in = b.claimOne("relay-1")
	b.clock.Advance(time.Hour)
	refused("the delivery's lease ran out", 3)
	b.ok(b.Delivered(b.ctx, in, object("x")))
	refused("an older generation was seen", 2)
	refused("a generation that is not there was seen", 4)
	_, err = b.CreditShrink(b.ctx, r.Ref, 3)
	b.ok(err)
	b.used("team-a", 2, "default", 2)
}

func shrinkMovedOn(b *bundle) {
	r := b.grown("x")
	_, err := b.Shrink(b.ctx, r.Ref, 1)
	b.ok(err)
	b.deliver(r.Ref, 1)
	grown, err := b.Grow(b.ctx, r.Ref, 2) // before anybody credited
	b.ok(err)
	equal(b, "held", grown.Held, 6)
	_, err = b.CreditShrink(b.ctx, r.Ref, 3)
	b.is(err, budget.ErrNotReleasable)
	b.entries(r.Ref, 2, 4)
	b.deliver(r.Ref, 1)
	got, err := b.CreditShrink(b.ctx, r.Ref, 4)
	b.ok(err)
	equal(b, "held", got.Held, 4)
	b.entries(r.Ref, 2, 4, -2)
}

func shrinkReleased(b *bundle) {
	r := b.grown("x")
	_, err := b.Shrink(b.ctx, r.Ref, 1)
	b.ok(err)
	b.deliver(r.Ref, 1)
	_, err = b.RequestRelease(b.ctx, r.Ref)
	b.ok(err)
	b.pending()
	_, err = b.CreditShrink(b.ctx, r.Ref, 3)
	b.is(err, budget.ErrNotReleasable)
	b.deliver(r.Ref, 1)
	_, err = b.Credit(b.ctx, r.Ref, false)
	b.ok(err)
	b.entries(r.Ref, 2, 4, -6)
	b.used("team-a", 0, "default", 0)
	got, err := b.CreditShrink(b.ctx, r.Ref, 3)
	b.ok(err)
	equal(b, "state", got.State, budget.Released)
	b.entries(r.Ref, 2, 4, -6)
}

func shrinkNothing(b *bundle) {
	w := b.submit("team-a", "w", 9, 50)
	r := b.grown("x")
	for _, one := range []budget.Reservation{w, r} {
		for _, generation := range []int64{0, one.Generation, 99} {
			got, err := b.CreditShrink(b.ctx, one.Ref, generation)
			b.ok(err)
			equal(b, "revision", got.Revision, one.Revision)
		}
	}
}

func shrinkRace(b *bundle) {
	r := b.grown("x")
	_, err := b.Shrink(b.ctx, r.Ref, 1)
	b.ok(err)
	b.deliver(r.Ref, 1)
	b.whileSampling(func() {
		var all sync.WaitGroup
		for range 30 {
			all.Go(func() {
				if _, err := b.CreditShrink(b.ctx, r.Ref, 3); err != nil {
					b.Errorf("credit: %v", err)
				}
			})
		}
		all.Wait()
	})
	b.entries(r.Ref, 2, 4, -4)
	b.used("team-a", 2, "default", 2)
}

func shrinkFilter(b *bundle) {
	b.quota("team-a", 20)
	b.pool("default", 20)
	x, y := b.grown("x"), b.grown("y")
	for _, r := range []budget.Reservation{x, y} {
		_, err := b.Shrink(b.ctx, r.Ref, 1)
		b.ok(err)
	}
	b.pending(x.Ref, y.Ref)
	for what, f := range map[string]budget.Filter{
		"tenant": {ShrinkPending: true, Tenant: "team-b"}, "state": {ShrinkPending: true, State: budget.Waiting},
		"model": {ShrinkPending: true, Model: "z"}, "after": {ShrinkPending: true, AfterSeq: y.Seq},
		"release": {ShrinkPending: true, ReleasePending: true},
	} {
		rows, err := b.List(b.ctx, f)
		b.ok(err)
		equal(b, "rows by "+what, len(rows), 0)
	}
	one, err := b.List(b.ctx, budget.Filter{ShrinkPending: true, State: budget.Reserved, Tenant: "team-a", Model: "x", Limit: 1})
	b.ok(err)
	equal(b, "rows", len(one), 1)
	b.deliver(x.Ref, 1)
	_, err = b.CreditShrink(b.ctx, x.Ref, 3)
	b.ok(err)
	b.pending(y.Ref)
}
