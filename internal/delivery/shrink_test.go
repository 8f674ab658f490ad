package delivery_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/modelspec"
)

// scale patches a request to least replicas of at most four.
func (b *bench) scale(ref budget.Ref, least int) budget.Reservation {
	b.Helper()
	r, err := b.ledger.Get(b.Context(), ref)
	b.must(err)
	r, err = b.ledger.Patch(b.Context(), ref, budget.Patch{Generation: r.Generation, Replicas: &modelspec.Replicas{Min: least, Max: 4}})
	b.must(err)
	return r
}

// run makes the target show n replicas, the last ones terminating.
func (b *bench) run(ref budget.Ref, n, terminating int) {
	b.target.change(ref, func(s *delivery.Status) {
		s.Replicas = nil
		for i := range n {
			r := delivery.Replica{Name: fmt.Sprint("r-", i), UID: fmt.Sprint("p-", i), Phase: delivery.PhaseReady}
			if i >= n-terminating {
				r.Phase = delivery.PhaseTerminating
			}
			s.Replicas = append(s.Replicas, r)
		}
		s.Replicas = append(s.Replicas, delivery.Replica{Name: "r-failed", Phase: delivery.PhaseBackoff}) // has no process
	})
}

// grown is a request of cost 2 that runs three replicas.
func (b *bench) grown() budget.Ref {
	b.Helper()
	ref := b.reserve("team-a", "demo", 2)
	b.deliver()
	b.scale(ref, 3)
	b.deliver()
	if got := b.target.objects[ref]; got.Wanted != 3 || got.Generation != 2 {
		b.Fatalf("the target was told %+v", got)
	}
	b.run(ref, 3, 0)
	b.clean("team-a", 6)
	return ref
}

func TestShrinkIsCreditedWhenTheSurplusIsGone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.grown()
	b.scale(ref, 1)
	nothing := func(why string) {
		t.Helper()
		if s := b.settle(); len(s.Steps) != 0 {
			t.Fatalf("credited although %s: %+v", why, s)
		}
		b.clean("team-a", 6)
	}
	nothing("the lower count is undelivered")
	b.run(ref, 1, 0)
	nothing("nobody told the target, even though no more run")
	b.run(ref, 3, 0)
	b.deliver()
	nothing("three still run")
	b.run(ref, 3, 2)
	nothing("two still terminate")
	b.run(ref, 1, 0)
	b.target.change(ref, func(s *delivery.Status) { s.Generation = 2 })
	nothing("an older generation is seen")
	b.target.change(ref, func(s *delivery.Status) { s.Generation, s.Object.UID = 3, "somebody-else's" })
	nothing("another object is seen")
	b.target.change(ref, func(s *delivery.Status) { s.Object.UID = "uid-1" })
	s := b.settle()
	if s.Count("credited") != 1 || !strings.Contains(s.Steps[0].Note, "4 slots") {
		t.Fatalf("round %+v", s)
	}
	b.clean("team-a", 2)
	if s := b.settle(); len(s.Steps) != 0 {
		t.Fatalf("credited twice: %+v", s)
	}
}

func TestGrowingAgainBeforeTheCreditKeepsTheSlots(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.grown()
	b.scale(ref, 1)
	b.deliver()
	b.run(ref, 1, 0)
	b.scale(ref, 2) // before the settler looked
	if s := b.settle(); len(s.Steps) != 0 {
		t.Fatalf("credited for an older generation: %+v", s)
	}
	b.deliver()
	if s := b.settle(); s.Count("credited") != 1 {
		t.Fatalf("round %+v", s)
	}
	b.clean("team-a", 4)
}

func TestCrashBeforeAShrinksCreditCreditsOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.grown()
	b.scale(ref, 2)
	b.deliver()
	b.run(ref, 2, 0)
	b.crashAt(delivery.CrashBeforeCredit, func() { b.settle() })
	b.clean("team-a", 6)
	if s := b.settle(); s.Count("credited") != 1 {
		t.Fatalf("round %+v", s)
	}
	b.clean("team-a", 4)
}

func TestReleaseAfterAShrinkCreditsAll(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.grown()
	b.scale(ref, 1)
	b.deliver()
	b.release(ref)
	b.deliver()
	if s := b.settle(); s.Count("credited") != 1 {
		t.Fatalf("round %+v", s)
	}
	b.clean("team-a", 0)
	journal, err := b.ledger.Journal(t.Context(), ref)
	b.must(err)
	if last := journal[len(journal)-1]; len(journal) != 3 || last.Op != budget.OpRelease || last.Slots != -6 {
		t.Fatalf("journal %+v", journal)
	}
}

// An old intent, delivered by somebody whose lease ran out, changes nothing.
func TestALateIntentDoesNotUndoAShrink(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.reserve("team-a", "demo", 2)
	b.deliver()
	b.scale(ref, 2)
	late, err := b.ledger.Claim(t.Context(), "slow", 1, time.Second)
	b.must(err)
	b.pass(2 * time.Second)
	b.deliver()
	b.scale(ref, 1)
	b.deliver()
	if _, err := b.target.Apply(t.Context(), delivery.Desired{Ref: ref, Generation: late[0].Generation, Funded: late[0].Funded}); err != nil {
		t.Fatal(err)
	}
	if got := b.target.objects[ref]; got.Wanted != 1 {
		t.Fatalf("the target was told %+v", got)
	}
}

// What is changed and delivered between the two lists is no drift.
func TestAChangeDuringTheRoundIsNoDrift(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.reserve("team-a", "demo", 2)
	b.deliver()
	b.target.BeforeList = func() {
		b.target.BeforeList = nil
		b.scale(ref, 2)
		b.deliver()
	}
	if s := b.reconcile(); len(s.Steps) != 0 {
		t.Fatalf("round %+v", s)
	}
	b.target.change(ref, func(s *delivery.Status) { s.Funded = 3 })
	if s := b.reconcile(); s.Count("drift") != 1 || b.target.objects[ref].Funded != 2 {
		t.Fatalf("round %+v", s)
	}
	// How many of the funded ones run is the scaler's, where the number can change.
	b.target.change(ref, func(s *delivery.Status) { s.Asked, s.Wanted = 0, 0 })
	if s := b.reconcile(); s.Count("drift") != 0 {
		t.Fatalf("a model that sleeps was woken: %+v", s)
	}
}
