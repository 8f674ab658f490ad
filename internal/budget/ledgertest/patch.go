package ledgertest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/modelspec"
)

func runPatch(t *testing.T, open Opener) {
	for name, run := range map[string]func(*bundle){
		"while it waits only the stored model changes":             patchWaiting,
		"what it will need is what it says when it is admitted":    patchedNeed,
		"the first submit stays the same answer":                   patchedSubmit,
		"reserved, the new model is delivered as a generation":     patchReserved,
		"raising replicas.min funds the difference":                patchRaises,
		"raising beyond a cap says so and changes nothing":         patchBlocked,
		"lowering replicas.min lowers the count, not yet the cost": patchLowers,
		"replicas above replicas.min stay, up to replicas.max":     patchKeepsGrown,
		"a patch that changes nothing is no generation":            patchNothing,
		"a stale generation is refused":                            patchStale,
		"what ends or has ended cannot be changed":                 patchTooLate,
		"nonsense is refused":                                      patchNonsense,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, open, 10)
			b.quota("team-a", 8)
			run(b)
		})
	}
}

// between is a patch of the replicas for the generation that r has.
func between(r budget.Reservation, least, most int) budget.Patch {
	return budget.Patch{Generation: r.Generation, Replicas: &modelspec.Replicas{Min: least, Max: most}}
}

func (b *bundle) patch(r budget.Reservation, p budget.Patch) budget.Reservation {
	b.Helper()
	got, err := b.Patch(b.ctx, r.Ref, p)
	b.ok(err)
	stored := b.get(r.Tenant, r.ID)
	equal(b, "stored revision", stored.Revision, got.Revision)
	equal(b, "stored generation", stored.Generation, got.Generation)
	equal(b, "stored held", stored.Held, got.Held)
	equal(b, "stored funded", stored.Funded, got.Funded)
	return got
}

// intents of one request; want is how many there must be.
func (b *bundle) intents(ref budget.Ref, want int) []budget.Intent {
	b.Helper()
	rows, err := b.Intents(b.ctx, ref)
	b.ok(err)
	equal(b, "outbox rows", len(rows), want)
	return rows
}

// entries of one request's journal; want are their slots in order.
func (b *bundle) entries(ref budget.Ref, want ...int64) []budget.Entry {
	b.Helper()
	rows, err := b.Journal(b.ctx, ref)
	b.ok(err)
	got := make([]int64, 0, len(rows))
	for _, e := range rows {
		got = append(got, e.Slots)
	}
	if !slices.Equal(got, want) {
		b.Fatalf("the journal has %v, want %v", got, want)
	}
	return rows
}

func patchWaiting(b *bundle) {
	r := b.submit("team-a", "x", 2, 50)
	b.clock.Advance(time.Second)
	got := b.patch(r, budget.Patch{
		Generation: 1, Replicas: &modelspec.Replicas{Min: 2, Max: 3}, Traffic: &modelspec.Traffic{Weight: 7},
		Cache: &modelspec.Cache{Enabled: true, TTLSeconds: 5}, ColdStart: &modelspec.ColdStart{TimeoutSeconds: 9, MaxWaiting: 1}, Scaling: &modelspec.Scaling{IdleSeconds: 9},
	})
	equal(b, "generation", got.Generation, 2)
	equal(b, "revision", got.Revision, r.Revision+1)
	equal(b, "state", got.State, budget.Waiting)
	equal(b, "held", got.Held, 0)
	equal(b, "funded", got.Funded, 0)
	equal(b, "hash", got.SpecHash, r.SpecHash)
	m := b.get("team-a", "x").Model
	equal(b, "replicas", m.Replicas, modelspec.Replicas{Min: 2, Max: 3})
	equal(b, "weight", m.Traffic.Weight, 7)
	equal(b, "cache", m.Cache, modelspec.Cache{Enabled: true, TTLSeconds: 5})
	equal(b, "cold start", m.ColdStart, modelspec.ColdStart{TimeoutSeconds: 9, MaxWaiting: 1})
	if m.Scaling == nil || m.Scaling.IdleSeconds != 9 {
		b.Fatalf("scaling is %+v", m.Scaling)
	}
	equal(b, "name", m.Name, r.Model.Name)
	equal(b, "memory", m.GPUMemory, r.Model.GPUMemory)
	b.intents(r.Ref, 0)
	b.entries(r.Ref)
	b.used("team-a", 0, "default", 0)
	equal(b, "need", b.standing("team-a", "x").Need, 4)
}

func patchedNeed(b *bundle) {
	r := b.patch(b.submit("team-a", "x", 3, 50), between(b.get("team-a", "x"), 3, 3))
	b.reason("team-a", "x", budget.ExceedsQuota)
	b.admits()
	b.patch(r, between(r, 2, 3))
	b.admits("x")
	got := b.get("team-a", "x")
	equal(b, "held", got.Held, 6)
	equal(b, "funded", got.Funded, 2)
	rows := b.intents(r.Ref, 1)
	equal(b, "generation told", rows[0].Generation, 3)
	equal(b, "funded told", rows[0].Funded, 2)
	b.used("team-a", 6, "default", 6)
}

func patchedSubmit(b *bundle) {
	first := submission("team-a", "x", 2, 50)
	r := b.submit("team-a", "x", 2, 50)
	r = b.patch(r, between(r, 2, 2))
	for range 2 {
		again, err := b.Submit(b.ctx, first)
		b.ok(err)
		equal(b, "generation", again.Generation, 2)
		equal(b, "replicas", again.Model.Replicas.Min, 2)
		b.admit()
	}
	first.Model.Replicas = r.Model.Replicas // what it says now was never submitted
	_, err := b.Submit(b.ctx, first)
	var conflict *budget.ConflictError
	if !errors.As(err, &conflict) || conflict.Field != "model" {
		b.Fatalf("submitting the patched model was answered %v", err)
	}
}

func patchReserved(b *bundle) {
	r := b.reserved("x", 2)
	b.ok(b.Delivered(b.ctx, b.claimOne("relay"), object("x")))
	b.clock.Advance(time.Second)
	got := b.patch(r, budget.Patch{Generation: 1, Traffic: &modelspec.Traffic{Weight: 0}})
	equal(b, "generation", got.Generation, 2)
	equal(b, "revision", got.Revision, r.Revision+1)
	equal(b, "held", got.Held, 2)
	equal(b, "funded", got.Funded, 1)
	rows := b.intents(r.Ref, 2)
	equal(b, "op", rows[1].Op, budget.Apply)
	equal(b, "generation told", rows[1].Generation, 2)
	equal(b, "weight told", rows[1].Model.Traffic.Weight, 0)
	equal(b, "funded told", rows[1].Funded, 1)
	equal(b, "due at", rows[1].NextAttemptAt, b.clock.Now())
	b.entries(r.Ref, 2)
	in := b.claimOne("relay")
	equal(b, "generation handed out", in.Generation, 2)
	b.ok(b.Delivered(b.ctx, in, object("x")))
}

func patchRaises(b *bundle) {
	r := b.reserved("x", 2)
	got := b.patch(r, between(r, 3, 4))
	equal(b, "held", got.Held, 6)
	equal(b, "funded", got.Funded, 3)
	equal(b, "generation", got.Generation, 2)
	entries := b.entries(r.Ref, 2, 4)
	equal(b, "op", entries[1].Op, budget.OpGrow)
	equal(b, "revision", entries[1].Revision, got.Revision)
	rows := b.intents(r.Ref, 2)
	equal(b, "funded told", rows[1].Funded, 3)
	equal(b, "replicas told", rows[1].Model.Replicas, modelspec.Replicas{Min: 3, Max: 4})
	b.used("team-a", 6, "default", 6)
	// In order, one at a time.
	first := b.claimOne("relay")
	equal(b, "funded first", first.Funded, 1)
	b.ok(b.Delivered(b.ctx, first, object("x")))
	equal(b, "funded then", b.claimOne("relay").Funded, 3)
}

// blocked fails unless err says that growing is blocked, by whom and why.
func (b *bundle) blocked(err error, by string, reason budget.Reason, need int64) {
	b.Helper()
	var e *budget.BlockedError
	if !errors.As(err, &e) {
		b.Fatalf("got %v, want that the budget blocks it", err)
	}
	equal(b, "blocked by", e.By, by)
	equal(b, "reason", e.Reason, reason)
	equal(b, "need", e.Need, need)
}

func patchBlocked(b *bundle) {
	r := b.reserved("x", 2)
	_, err := b.Patch(b.ctx, r.Ref, between(r, 5, 5))
	b.blocked(err, "tenant", budget.QuotaBlocked, 8)
	if !strings.Contains(err.Error(), "from 1 to 5 replicas") || !strings.Contains(err.Error(), "8 more slots") || !strings.Contains(err.Error(), "team-a holds 2 of 8") {
		b.Fatalf("the message lacks its figures: %v", err)
	}
	b.quota("team-a", 100)
	b.pool("default", 9)
	_, err = b.Patch(b.ctx, r.Ref, between(r, 5, 5))
	b.blocked(err, "pool", budget.PoolBlocked, 8)
	got := b.get("team-a", "x")
	equal(b, "revision", got.Revision, r.Revision)
	equal(b, "generation", got.Generation, 1)
	equal(b, "replicas", got.Model.Replicas, r.Model.Replicas)
	equal(b, "funded", got.Funded, 1)
	b.intents(r.Ref, 1)
	b.entries(r.Ref, 2)
	b.used("team-a", 2, "default", 2)
	b.pool("default", 10)
	b.patch(r, between(r, 5, 5))
	b.used("team-a", 10, "default", 10)
}

func patchLowers(b *bundle) {
	r := b.reserved("x", 2)
	r = b.patch(r, between(r, 3, 4))
	got := b.patch(r, between(r, 0, 4))
	equal(b, "funded", got.Funded, 1)
	equal(b, "held", got.Held, 6)
	equal(b, "generation", got.Generation, 3)
	rows := b.intents(r.Ref, 3)
	equal(b, "funded told", rows[2].Funded, 1)
	b.entries(r.Ref, 2, 4)
	b.used("team-a", 6, "default", 6)
	b.pending(r.Ref)
	// Raised again before the credit, it takes what is held first.
	got = b.patch(got, between(got, 4, 4))
	equal(b, "held", got.Held, 8)
	b.entries(r.Ref, 2, 4, 2)
	b.used("team-a", 8, "default", 8)
	b.pending()
}

// pending fails unless these requests, and no others, wait for a shrink's credit.
func (b *bundle) pending(want ...budget.Ref) {
	b.Helper()
	rows, err := b.List(b.ctx, budget.Filter{ShrinkPending: true})
	b.ok(err)
	got := make([]budget.Ref, 0, len(rows))
	for _, r := range rows {
		got = append(got, r.Ref)
	}
	if !slices.Equal(got, want) {
		b.Fatalf("shrinks of %v wait for their credit, want %v", got, want)
	}
}

func patchKeepsGrown(b *bundle) {
	r := b.reserved("x", 1)
	r = b.patch(r, between(r, 1, 6))
	equal(b, "funded", r.Funded, 1)
	r, err := b.Grow(b.ctx, r.Ref, 5)
	b.ok(err)
	r = b.patch(r, budget.Patch{Generation: r.Generation, Traffic: &modelspec.Traffic{Weight: 1}})
	equal(b, "funded", r.Funded, 5)
	r = b.patch(r, between(r, 2, 6)) // raised, but not above what is funded
	equal(b, "funded", r.Funded, 5)
	equal(b, "held", r.Held, 5)
	r = b.patch(r, between(r, 2, 4))
	equal(b, "funded", r.Funded, 4)
	r = b.patch(r, between(r, 1, 4))
	equal(b, "funded", r.Funded, 1)
	equal(b, "held", r.Held, 5)
}

func patchNothing(b *bundle) {
	w := b.submit("team-a", "w", 1, 50)
	equal(b, "revision", b.patch(w, between(w, 1, 1)).Revision, w.Revision)
	b.admit()
	r := b.get("team-a", "w")
	same := r.Model.Traffic
	for _, p := range []budget.Patch{{Generation: 1}, between(r, 1, 1), {Generation: 1, Traffic: &same}} {
		got := b.patch(r, p)
		equal(b, "revision", got.Revision, r.Revision)
		equal(b, "generation", got.Generation, 1)
	}
	b.intents(r.Ref, 1)
}

func patchStale(b *bundle) {
	r := b.reserved("x", 1)
	b.patch(r, between(r, 2, 2))
	for _, generation := range []int64{0, 1, 3} {
		_, err := b.Patch(b.ctx, r.Ref, budget.Patch{Generation: generation, Replicas: &modelspec.Replicas{Min: 3, Max: 3}})
		var stale *budget.StaleGenerationError
		if !errors.As(err, &stale) || stale.Have != 2 || stale.Got != generation {
			b.Fatalf("generation %d was answered %v", generation, err)
		}
	}
	equal(b, "generation", b.get("team-a", "x").Generation, 2)
	b.used("team-a", 2, "default", 2)
}

func patchTooLate(b *bundle) {
	_, err := b.Patch(b.ctx, budget.Ref{Tenant: "team-a", ID: "nobody"}, budget.Patch{Generation: 1})
	b.is(err, budget.ErrNotFound)
	r := b.reserved("x", 1)
	_, err = b.Patch(b.ctx, budget.Ref{Tenant: "team-b", ID: "x"}, between(r, 2, 2))
	b.is(err, budget.ErrNotFound)
	asked, err := b.RequestRelease(b.ctx, r.Ref)
	b.ok(err)
	_, err = b.Patch(b.ctx, r.Ref, between(asked, 2, 2))
	b.is(err, budget.ErrReleaseRequested)
	_, err = b.Credit(b.ctx, r.Ref, true)
	b.ok(err)
	_, err = b.Patch(b.ctx, r.Ref, between(asked, 2, 2))
	b.is(err, budget.ErrFinal)
	w := b.submit("team-a", "late", 9, 50)
	b.clock.Advance(2 * budget.DefaultTTL)
	_, err = b.Expire(b.ctx)
	b.ok(err)
	_, err = b.Patch(b.ctx, w.Ref, between(w, 1, 2))
	b.is(err, budget.ErrFinal)
	equal(b, "generation", b.get("team-a", "late").Generation, 1)
}

func patchNonsense(b *bundle) {
	r := b.reserved("x", 1)
	for field, p := range map[string]budget.Patch{
		"model.replicas.min":             between(r, -1, 1),
		"model.replicas.max":             between(r, 3, 2),
		"model.traffic.weight":           {Generation: 1, Traffic: &modelspec.Traffic{Weight: 1001}},
		"model.coldStart.timeoutSeconds": {Generation: 1, ColdStart: &modelspec.ColdStart{}},
	} {
		_, err := b.Patch(b.ctx, r.Ref, p)
		var wrong *modelspec.FieldError
		if !errors.As(err, &wrong) || wrong.Field != field {
			b.Fatalf("%s: got %v", field, err)
		}
	}
	equal(b, "revision", b.get("team-a", "x").Revision, r.Revision)
}
