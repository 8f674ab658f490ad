package delivery_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
)

func TestReadinessAndNodeAreRecordedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.reserve("team-a", "demo", 3)
	b.deliver()
	if s := b.settle(); len(s.Steps) != 0 {
		t.Fatalf("nothing is ready: %+v", s)
	}
	b.target.change(ref, func(s *delivery.Status) {
		s.Ready = 1
		s.Replicas = []delivery.Replica{{Node: "node-1", Cards: []delivery.Card{{UUID: "c"}}}}
	})
	if s := b.settle(); s.Count("ready") != 1 {
		t.Fatalf("round %+v", s)
	}
	if s := b.settle(); len(s.Steps) != 0 {
		t.Fatalf("told twice: %+v", s)
	}
	bound, err := b.ledger.Binding(t.Context(), ref)
	b.must(err)
	r, err := b.ledger.Get(t.Context(), ref)
	b.must(err)
	if !bound.EverReady || bound.FirstReadyAt.IsZero() || r.Node != "node-1" {
		t.Fatalf("binding %+v, node %q", bound, r.Node)
	}
}

// What was ready between two rounds only is recorded as well: while it ends, or
// from what the target remembers of it.
func TestReadinessIsRecordedAfterTheEnd(t *testing.T) {
	t.Parallel()
	ready := delivery.Replica{Node: "node-1", Cards: []delivery.Card{{UUID: "c"}}, Phase: delivery.PhaseTerminating, ReadyAt: time.Unix(1, 0)}
	for name, end := range map[string]func(b *bench, ref budget.Ref){
		"while it ends": func(b *bench, ref budget.Ref) {
			b.target.change(ref, func(s *delivery.Status) { s.Replicas = []delivery.Replica{ready} })
			b.settle()
		},
		"when it is gone": func(b *bench, ref budget.Ref) {
			b.target.change(ref, func(s *delivery.Status) { s.Last = []delivery.Replica{ready} })
			b.release(ref)
			b.deliver()
			b.settle()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			ref := b.reserve("team-a", "demo", 3)
			b.deliver()
			b.settle()
			end(b, ref)
			bound, err := b.ledger.Binding(t.Context(), ref)
			b.must(err)
			if !bound.EverReady || bound.FirstReadyAt.IsZero() {
				t.Fatalf("binding %+v", bound)
			}
		})
	}
}

func TestSlotsComeBackOnlyWhenTheLastProcessIsGone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.reserve("team-a", "demo", 7)
	b.deliver()
	b.target.linger = true
	b.release(ref)
	if s := b.settle(); len(s.Steps) != 0 {
		t.Fatalf("credited before the delete was delivered: %+v", s)
	}
	b.deliver()
	for range 3 {
		if s := b.settle(); len(s.Steps) != 0 {
			t.Fatalf("credited while it still runs: %+v", s)
		}
	}
	b.clean("team-a", 7)
	b.target.lose(ref)
	if s := b.settle(); s.Count("credited") != 1 {
		t.Fatalf("round %+v", s)
	}
	bound, err := b.ledger.Binding(t.Context(), ref)
	b.must(err)
	if bound.GoneAt.IsZero() || b.state(ref) != budget.Released {
		t.Fatalf("binding %+v, state %s", bound, b.state(ref))
	}
	b.clean("team-a", 0)
}

// A re-created object of the same name is not ours: it neither is deleted nor
// keeps the slots.
func TestRecreatedObjectIsNotOurs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.reserve("team-a", "demo", 7)
	b.deliver()
	b.target.change(ref, func(s *delivery.Status) { s.Object.UID = "somebody-else's" })
	b.release(ref)
	b.deliver()
	b.settle()
	if b.state(ref) != budget.Released || b.target.objects[ref] == nil {
		t.Fatalf("state %s, object %+v", b.state(ref), b.target.objects[ref])
	}
	b.clean("team-a", 0)
}

// C131: many releases and many settlers, one credit.
func TestManyReleasesCreditOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.reserve("team-a", "demo", 7)
	b.deliver()
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			_, err := b.ledger.RequestRelease(t.Context(), ref)
			if err == nil {
				_, err = b.relay.Round(t.Context(), 1)
			}
			if err == nil {
				_, err = b.settler.Round(t.Context(), 0)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	b.settle()
	journal, err := b.ledger.Journal(t.Context(), ref)
	b.must(err)
	if len(journal) != 2 || journal[1].Slots != -7 || b.state(ref) != budget.Released {
		t.Fatalf("journal %+v, state %s", journal, b.state(ref))
	}
	b.clean("team-a", 0)
}

// C134: a crash after the object is gone and before the credit.
func TestCrashBeforeCreditCreditsOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.reserve("team-a", "demo", 7)
	b.deliver()
	b.release(ref)
	b.deliver()
	b.crashAt(delivery.CrashBeforeCredit, func() { _, _ = b.settler.Round(t.Context(), 0) })
	b.clean("team-a", 7)
	if s := b.settle(); s.Count("credited") != 1 {
		t.Fatalf("after the restart %+v", s)
	}
	if s := b.settle(); len(s.Steps) != 0 {
		t.Fatalf("credited again: %+v", s)
	}
	b.clean("team-a", 0)
}

// A forced credit does not wait for the last process; that it is gone is still
// written down once it is, also by a ModelDock that was started in between.
func TestForcedCreditIsFollowedToTheEnd(t *testing.T) {
	t.Parallel()
	for _, restarted := range []bool{false, true} {
		b := setup(t)
		ref := b.reserve("team-a", "demo", 7)
		b.deliver()
		b.settle()
		b.target.linger = true
		b.release(ref)
		b.deliver()
		_, err := b.ledger.Credit(t.Context(), ref, true)
		b.must(err)
		if s := b.settle(); len(s.Steps) != 0 {
			t.Fatalf("while it still runs: %+v", s)
		}
		if bound, err := b.ledger.Binding(t.Context(), ref); err != nil || !bound.GoneAt.IsZero() {
			t.Fatalf("gone while it still runs: %+v (%v)", bound, err)
		}
		if restarted {
			b.wire(func(string) {})
		}
		b.target.lose(ref)
		if s := b.settle(); s.Count("gone") != 1 || len(s.Steps) != 1 {
			t.Fatalf("after its end: %+v", s)
		}
		if bound, err := b.ledger.Binding(t.Context(), ref); err != nil || bound.GoneAt.IsZero() {
			t.Fatalf("its end is not on record: %+v (%v)", bound, err)
		}
		if s := b.settle(); len(s.Steps) != 0 {
			t.Fatalf("again: %+v", s)
		}
		b.clean("team-a", 0)
	}
}

func TestReconcileWritesNothingWhereNothingDiffers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.reserve("team-a", "demo", 3)
	b.deliver()
	applies := b.target.applies
	for range 3 {
		if s := b.reconcile(); len(s.Steps) != 0 {
			t.Fatalf("differences %+v", s)
		}
	}
	if b.target.applies != applies {
		t.Fatalf("%d writes at rest", b.target.applies-applies)
	}
}

func TestLostObjectIsRestoredUnderItsUID(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.reserve("team-a", "demo", 3)
	b.deliver()
	b.target.lose(ref)
	if s := b.reconcile(); s.Count("lost") != 1 || !strings.Contains(s.Steps[0].Note, "restored") {
		t.Fatalf("round %+v", s)
	}
	if st := b.target.objects[ref]; st == nil || st.Object.UID != "uid-1" {
		t.Fatalf("object %+v", st)
	}
	if s := b.reconcile(); len(s.Steps) != 0 {
		t.Fatalf("still different: %+v", s)
	}
	b.clean("team-a", 3)
}

func TestOrphans(t *testing.T) {
	t.Parallel()
	b := setup(t)
	// 1. Its reservation has ended: it goes.
	ended := b.reserve("team-a", "ended", 3)
	b.release(ended)
	b.deliver()
	b.settle()
	b.target.put(delivery.Desired{Ref: ended, Ledger: b.instance, Name: "ended", Funded: 1})
	// 2. Nobody knows it: it is reported and stays.
	unknown := budget.Ref{Tenant: "team-a", ID: "unknown"}
	b.target.put(delivery.Desired{Ref: unknown, Ledger: b.instance, Name: "unknown", Funded: 1})
	// 3. Another ledger's: it is reported and stays.
	foreign := budget.Ref{Tenant: "team-b", ID: "foreign"}
	b.target.put(delivery.Desired{Ref: foreign, Ledger: "another", Name: "foreign", Funded: 1})

	if s := b.reconcile(); s.Count("orphan") != 2 || s.Count("foreign") != 1 {
		t.Fatalf("round %+v", s)
	}
	if b.target.objects[ended] != nil || b.target.objects[unknown] == nil || b.target.objects[foreign] == nil {
		t.Fatalf("objects %+v", b.target.objects)
	}
}

func TestDriftIsRepaired(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.reserve("team-a", "demo", 3)
	b.deliver()
	b.target.change(ref, func(s *delivery.Status) { s.Wanted = 5 })
	if s := b.reconcile(); s.Count("drift") != 1 {
		t.Fatalf("round %+v", s)
	}
	if got := b.target.objects[ref].Wanted; got != 1 {
		t.Fatalf("it runs for %d replicas", got)
	}
}

func TestManyMissingObjectsAreNotBelieved(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var refs []budget.Ref
	for i := range 20 {
		refs = append(refs, b.reserve("team-a", fmt.Sprintf("m-%d", i), 1))
	}
	b.deliver()
	leaving := b.reserve("team-b", "leaving", 1)
	b.deliver()
	b.release(leaving)
	b.deliver()
	for _, ref := range refs[:11] {
		b.target.lose(ref)
	}
	applies := b.target.applies
	if s := b.reconcile(); s.Count("doubted") != 1 || b.target.applies != applies {
		t.Fatalf("round %+v, %d writes", s, b.target.applies-applies)
	}
	if why := b.doubt.Why(); !strings.Contains(why, "11 of 21 objects are missing") {
		t.Fatalf("doubt %q", why)
	}
	if s, err := b.settler.Round(t.Context(), 0); err == nil || s.Count("credited") != 0 {
		t.Fatalf("credited in doubt: %+v %v", s, err)
	}
	for _, ref := range refs[:11] { // they are back
		b.target.put(delivery.Desired{Ref: ref, Ledger: b.instance, Name: delivery.ObjectName(ref), Funded: 1, UID: boundUID(b, ref)})
	}
	b.reconcile()
	if b.doubt.Why() != "" {
		t.Fatalf("doubt stays: %q", b.doubt.Why())
	}
	b.pass(time.Second)
	b.settle()
	b.clean("team-b", 0)
}

func boundUID(b *bench, ref budget.Ref) string {
	b.Helper()
	bound, err := b.ledger.Binding(b.Context(), ref)
	b.must(err)
	return bound.UID
}
