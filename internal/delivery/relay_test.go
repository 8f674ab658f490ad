package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
)

func TestDeliverBindsOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.reserve("team-a", "demo", 3)
	if s := b.deliver(); s.Count("applied") != 1 {
		t.Fatalf("first round %+v", s)
	}
	bound, err := b.ledger.Binding(t.Context(), ref)
	b.must(err)
	if bound.UID != "uid-1" || bound.Name != delivery.ObjectName(ref) {
		t.Fatalf("bound to %+v", bound)
	}
	if s := b.deliver(); len(s.Steps) != 0 {
		t.Fatalf("second round %+v", s)
	}
	b.clean("team-a", 3)
}

// C031: the object was made, the reply was lost.
func TestLostReplyBindsTheSameObject(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.reserve("team-a", "demo", 3)
	lost := errors.New("the reply was lost")
	b.target.AfterApply = func(delivery.Desired) error { return lost }
	if s := b.deliver(); s.Count("deferred") != 1 || !strings.Contains(s.Steps[0].Note, lost.Error()) {
		t.Fatalf("round %+v", s)
	}
	b.target.AfterApply = nil
	b.pass(time.Second)
	b.deliver()
	bound, err := b.ledger.Binding(t.Context(), ref)
	b.must(err)
	if b.target.made != 1 || bound.UID != "uid-1" {
		t.Fatalf("%d objects, bound to %+v", b.target.made, bound)
	}
	b.clean("team-a", 3)
}

// What a target says may be a page long: the ledger keeps its beginning.
func TestLongErrorsAreKeptInPart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.reserve("team-a", "demo", 3)
	b.target.AfterApply = func(delivery.Desired) error { return errors.New(strings.Repeat("x", 1<<20)) }
	b.deliver()
	rows, err := b.ledger.Intents(t.Context(), ref)
	b.must(err)
	if said := rows[0].LastError; !strings.HasSuffix(said, "x…") || len(said) != 4096+len("…") {
		t.Errorf("%d bytes of a target's error are kept, want 4096 and a mark", len(said))
	}
}

// crashed stands for a process that ends at once.
type crashed struct{ point string }

// crashAt runs a round that ends at a point, and restarts.
func (b *bench) crashAt(point string, round func()) {
	b.Helper()
	b.wire(func(p string) {
		if p == point {
			panic(crashed{p})
		}
	})
	func() {
		defer func() {
			if c, ok := recover().(crashed); !ok {
				b.Fatalf("no crash at %s: %+v", point, c)
			}
		}()
		round()
	}()
	b.wire(func(string) {})
	b.pass(time.Minute) // the dead process's leases end
}

// The relay delivers on goroutines of its own, so its crashes are tested with
// one row and a crash that leaves the goroutine.
func TestCrashBeforeAckCostsNothing(t *testing.T) {
	t.Parallel()
	for _, point := range []string{delivery.CrashBeforeCreate, delivery.CrashBeforeAck} {
		b := setup(t)
		ref := b.reserve("team-a", "demo", 3)
		ctx, cancel := context.WithCancel(t.Context())
		reached := false
		b.wire(func(p string) {
			if p == point {
				reached = true
				cancel() // from here on nothing of this round reaches the ledger
			}
		})
		b.target.ApplyFunc = func(delivery.Desired) error { return ctx.Err() }
		_, _ = b.relay.Round(ctx, 1)
		if !reached {
			t.Fatalf("%s was not reached", point)
		}
		b.target.ApplyFunc = nil
		if _, err := b.ledger.Binding(t.Context(), ref); !errors.Is(err, budget.ErrNotFound) {
			t.Fatalf("%s: bound in spite of the crash: %v", point, err)
		}
		b.wire(func(string) {})
		b.pass(time.Minute)
		b.deliver()
		if bound, err := b.ledger.Binding(t.Context(), ref); err != nil || bound.UID != "uid-1" || b.target.made != 1 {
			t.Fatalf("%s: %d objects, bound to %+v (%v)", point, b.target.made, bound, err)
		}
		b.clean("team-a", 3)
	}
}

// The same for a deletion: the target has begun it, and nobody told the ledger.
func TestCrashBeforeTheAckOfADeletion(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.reserve("team-a", "demo", 3)
	b.deliver()
	b.release(ref)
	ctx, cancel := context.WithCancel(t.Context())
	reached := ""
	b.wire(func(p string) { reached = p; cancel() })
	_, _ = b.relay.Round(ctx, 1)
	if reached != delivery.CrashBeforeAck || b.target.objects[ref] != nil {
		t.Fatalf("crashed at %q, objects %+v", reached, b.target.objects)
	}
	b.wire(func(string) {})
	if s := b.settle(); len(s.Steps) != 0 {
		t.Fatalf("credited before the ledger knows of the deletion: %+v", s)
	}
	b.pass(time.Minute)
	b.deliver()
	b.settle()
	if b.state(ref) != budget.Released {
		t.Fatalf("state %s", b.state(ref))
	}
	b.clean("team-a", 0)
}

func TestReleaseWhileBeingMadeLeavesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.reserve("team-a", "demo", 3)
	b.target.AfterApply = func(delivery.Desired) error { b.release(ref); return nil }
	if s := b.deliver(); s.Count("superseded") != 1 {
		t.Fatalf("round %+v", s)
	}
	if len(b.target.objects) != 0 {
		t.Fatalf("objects are left: %+v", b.target.objects)
	}
	b.target.AfterApply = nil
	b.deliver()
	b.settle()
	if b.state(ref) != budget.Released {
		t.Fatalf("state %s", b.state(ref))
	}
	b.clean("team-a", 0)
}

func TestReleaseSupersedesAnUndeliveredApply(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.reserve("team-a", "demo", 3)
	b.release(ref)
	b.deliver()
	b.settle()
	if b.target.applies != 0 || b.state(ref) != budget.Released {
		t.Fatalf("%d applies, state %s", b.target.applies, b.state(ref))
	}
	b.clean("team-a", 0)
}

func TestPoisonRowBacksOffAndDelaysNobody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	poison := b.reserve("team-a", "poison", 1)
	b.target.ApplyFunc = func(d delivery.Desired) error {
		if d.Ref == poison {
			return errors.New("boom")
		}
		return nil
	}
	var waits []time.Duration
	for i := range 12 {
		other := b.reserve("team-b", fmt.Sprintf("good-%d", i), 1)
		s := b.deliver()
		if s.Count("applied") != 1 || s.Count("deferred") != 1 {
			t.Fatalf("round %d: %+v", i, s)
		}
		if _, err := b.ledger.Binding(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		rows, err := b.ledger.Intents(t.Context(), poison)
		b.must(err)
		if rows[0].LastError != "boom" {
			t.Fatalf("the row says %q", rows[0].LastError)
		}
		wait := rows[0].NextAttemptAt.Sub(b.clock())
		waits = append(waits, wait)
		b.pass(wait)
	}
	if waits[0] != time.Second || waits[1] != 2*time.Second || waits[11] != 5*time.Minute {
		t.Fatalf("pauses %v", waits)
	}
	b.clean("team-a", 1)
}

func TestNameTakenKeepsTheSlotsAndIsTriedAgainSoon(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.reserve("team-a", "demo", 3)
	taken := fmt.Errorf("apply: %w", delivery.ErrNameTaken)
	b.target.ApplyFunc = func(delivery.Desired) error { return taken }
	for range 10 {
		b.deliver()
		b.pass(30 * time.Second) // never longer than this
	}
	rows, err := b.ledger.Intents(t.Context(), ref)
	b.must(err)
	if rows[0].Attempts < 10 {
		t.Fatalf("%d attempts in 5 minutes", rows[0].Attempts)
	}
	b.clean("team-a", 3)
	b.target.ApplyFunc = nil
	if s := b.deliver(); s.Count("applied") != 1 {
		t.Fatalf("the name is free: %+v", s)
	}
}

func TestTwoRelaysMakeOneObject(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 20 {
		b.reserve("team-a", fmt.Sprintf("m-%d", i), 1)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for range 2 {
		running.Go(func() { b.relay.Run(ctx, nil) })
	}
	defer running.Wait()
	defer cancel()
	deadline := time.Now().Add(20 * time.Second)
	for bound := 0; bound < 20; {
		bound = 0
		for i := range 20 {
			if _, err := b.ledger.Binding(t.Context(), budget.Ref{Tenant: "team-a", ID: fmt.Sprintf("m-%d", i)}); err == nil {
				bound++
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of 20 bound", bound)
		}
		time.Sleep(5 * time.Millisecond)
	}
	b.target.mu.Lock()
	defer b.target.mu.Unlock()
	if b.target.made != 20 {
		t.Fatalf("%d objects for 20 reservations", b.target.made)
	}
}
