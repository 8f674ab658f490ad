package ledgertest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/modelspec"
)

func runGrow(t *testing.T, open Opener) {
	for name, run := range map[string]func(*bundle){
		"a growth is debited, journalled and intended once": growOnce,
		"it stops at replicas.max":                          growBound,
		"it needs a live reservation":                       growStates,
		"caps stop it, and it changes nothing then":         growBlocked,
		"slots kept for a waiting head stay kept":           growKept,
		"slots that the next round gives away stay free":    growPromised,
		"a tenant's own head keeps its slots too":           growTenantKept,
		"what a shrink still holds is used first":           growReuses,
		"twenty at once debit once":                         growRace,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, open, 10)
			b.quota("team-a", 8)
			run(b)
		})
	}
}

// elastic is a reserved request that may have up to most replicas.
func (b *bundle) elastic(id string, cost int64, most int) budget.Reservation {
	b.Helper()
	s := submission("team-a", id, cost, 50)
	s.Model.Replicas = modelspec.Replicas{Min: 1, Max: most}
	_, err := b.Submit(b.ctx, s)
	b.ok(err)
	b.admit()
	b.state(id, budget.Reserved)
	return b.get("team-a", id)
}

func growOnce(b *bundle) {
	r := b.elastic("x", 2, 4)
	got, err := b.Grow(b.ctx, r.Ref, 3)
	b.ok(err)
	equal(b, "held", got.Held, 6)
	equal(b, "funded", got.Funded, 3)
	equal(b, "generation", got.Generation, 2)
	equal(b, "revision", got.Revision, r.Revision+1)
	for _, n := range []int{3, 2, 1, 0, -1} { // there are as many
		again, err := b.Grow(b.ctx, r.Ref, n)
		b.ok(err)
		equal(b, "revision", again.Revision, got.Revision)
	}
	entries := b.entries(r.Ref, 2, 4)
	equal(b, "op", entries[1].Op, budget.OpGrow)
	equal(b, "revision", entries[1].Revision, got.Revision)
	rows := b.intents(r.Ref, 2)
	equal(b, "generation told", rows[1].Generation, 2)
	equal(b, "funded told", rows[1].Funded, 3)
	equal(b, "model told", rows[1].Model.Replicas, r.Model.Replicas)
	b.used("team-a", 6, "default", 6)
}

func growBound(b *bundle) {
	r := b.elastic("x", 1, 3)
	_, err := b.Grow(b.ctx, r.Ref, 4)
	var bound *budget.ReplicaBoundError
	if !errors.As(err, &bound) || bound.Bound != 3 || bound.Name != "replicas.max" {
		b.Fatalf("got %v", err)
	}
	equal(b, "funded", b.get("team-a", "x").Funded, 1)
}

func growStates(b *bundle) {
	_, err := b.Grow(b.ctx, budget.Ref{Tenant: "team-b", ID: "x"}, 2)
	b.is(err, budget.ErrNotFound)
	w := b.submit("team-a", "w", 9, 50)
	_, err = b.Grow(b.ctx, w.Ref, 1)
	b.is(err, budget.ErrNotReserved)
	r := b.elastic("x", 1, 3)
	_, err = b.RequestRelease(b.ctx, r.Ref)
	b.ok(err)
	_, err = b.Grow(b.ctx, r.Ref, 2)
	b.is(err, budget.ErrReleaseRequested)
	_, err = b.Credit(b.ctx, r.Ref, true)
	b.ok(err)
	_, err = b.Grow(b.ctx, r.Ref, 2)
	b.is(err, budget.ErrFinal)
	b.entries(r.Ref, 1, -1)
}

func growBlocked(b *bundle) {
	r := b.elastic("x", 3, 4)
	_, err := b.Grow(b.ctx, r.Ref, 3)
	b.blocked(err, "tenant", budget.QuotaBlocked, 6)
	b.quota("team-a", 9)
	b.pool("default", 8)
	_, err = b.Grow(b.ctx, r.Ref, 3)
	b.blocked(err, "pool", budget.PoolBlocked, 6)
	b.entries(r.Ref, 3)
	b.intents(r.Ref, 1)
	equal(b, "revision", b.get("team-a", "x").Revision, r.Revision)
	b.pool("default", 9)
	_, err = b.Grow(b.ctx, r.Ref, 3)
	b.ok(err)
	b.used("team-a", 9, "default", 9)
}

func growKept(b *bundle) {
	b.quota("team-b", 10)
	r := b.elastic("x", 1, 9)
	b.submit("team-b", "large", 10, 1)
	b.clock.Advance(budget.DefaultHeadWait - 1000)
	_, err := b.Grow(b.ctx, r.Ref, 2) // still lets others pass
	b.ok(err)
	b.clock.Advance(1000)
	_, err = b.Grow(b.ctx, r.Ref, 3)
	b.blocked(err, "pool", budget.QueuedBehind, 1)
	b.used("team-a", 2, "default", 2)
	_, err = b.RequestRelease(b.ctx, budget.Ref{Tenant: "team-b", ID: "large"})
	b.ok(err)
	_, err = b.Grow(b.ctx, r.Ref, 3)
	b.ok(err)
}

// growPromised: between a release and the next round, a growth must not take
// what somebody has waited for.
func growPromised(b *bundle) {
	b.quota("team-b", 10)
	r := b.elastic("x", 2, 4)
	b.submit("team-b", "waits", 7, 1)
	_, err := b.Grow(b.ctx, r.Ref, 2)
	b.blocked(err, "pool", budget.QueuedBehind, 2)
	b.admits("waits")
	b.pool("default", 11)
	_, err = b.Grow(b.ctx, r.Ref, 2)
	b.ok(err)
	b.pool("default", 100)
	b.submit("team-a", "own", 4, 1)
	_, err = b.Grow(b.ctx, r.Ref, 3)
	b.blocked(err, "tenant", budget.QueuedBehind, 2)
}

func growTenantKept(b *bundle) {
	r := b.elastic("x", 1, 9)
	b.submit("team-a", "large", 8, 1)
	_, err := b.Grow(b.ctx, r.Ref, 2)
	b.ok(err)
	b.clock.Advance(budget.DefaultHeadWait)
	_, err = b.Grow(b.ctx, r.Ref, 3)
	b.blocked(err, "tenant", budget.QueuedBehind, 1)
	// Other tenants' growth does not mind it.
	b.quota("team-b", 10)
	s := submission("team-b", "y", 1, 50)
	s.Model.Replicas.Max = 3
	_, err = b.Submit(b.ctx, s)
	b.ok(err)
	b.admits("y")
	_, err = b.Grow(b.ctx, s.Ref, 3)
	b.ok(err)
}

func growReuses(b *bundle) {
	r := b.elastic("x", 2, 4)
	r, err := b.Grow(b.ctx, r.Ref, 4)
	b.ok(err)
	r, err = b.Shrink(b.ctx, r.Ref, 1)
	b.ok(err)
	// The quota is full, and yet there is room: it is all held.
	r, err = b.Grow(b.ctx, r.Ref, 3)
	b.ok(err)
	equal(b, "held", r.Held, 8)
	equal(b, "funded", r.Funded, 3)
	equal(b, "generation", r.Generation, 4)
	b.entries(r.Ref, 2, 6)
	b.intents(r.Ref, 4)
	b.pending(r.Ref)
	_, err = b.Grow(b.ctx, r.Ref, 4)
	b.ok(err)
	b.entries(r.Ref, 2, 6)
	b.pending()
	b.used("team-a", 8, "default", 8)
}

func growRace(b *bundle) {
	refs := []budget.Ref{b.elastic("x", 1, 5).Ref, b.elastic("y", 1, 5).Ref}
	b.whileSampling(func() {
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				ref := refs[i%2]
				_, err := b.Grow(b.ctx, ref, 2+i%4)
				var blocked *budget.BlockedError
				if err != nil && !errors.As(err, &blocked) {
					b.Errorf("grow: %v", err)
				}
				r, err := b.Get(b.ctx, ref)
				if err != nil {
					b.Errorf("get: %v", err)
				}
				var stale *budget.StaleGenerationError
				if _, err := b.Patch(b.ctx, ref, budget.Patch{Generation: r.Generation, Traffic: &modelspec.Traffic{Weight: i}}); err != nil && !errors.As(err, &stale) {
					b.Errorf("patch: %v", err)
				}
			})
		}
		all.Wait()
	})
	var held int64
	for _, ref := range refs {
		r := b.get(ref.Tenant, ref.ID)
		held += r.Held
		equal(b, fmt.Sprint("held of ", ref.ID), r.Held, int64(r.Funded))
	}
	b.used("team-a", held, "default", held)
}
