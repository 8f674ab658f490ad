package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
)

// shared is a world in which others can delete objects too: what is being
// deleted stays until it is let go.
type shared struct {
	*world
	letGo      int
	unreadable error
}

func (w *shared) LetGo(_ context.Context, ref budget.Ref, uid string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	st := w.objects[ref]
	if st == nil || st.Object.UID != uid || st.DeletingAt.IsZero() || len(st.Replicas) > 0 {
		return nil
	}
	w.letGo++
	delete(w.objects, ref)
	return nil
}

func (w *shared) Observe(ctx context.Context, ref budget.Ref) (delivery.Status, error) {
	if w.unreadable != nil {
		return delivery.Status{}, w.unreadable
	}
	return w.world.Observe(ctx, ref)
}

// deleteByHand is what kubectl delete does.
func (w *shared) deleteByHand(ref budget.Ref) {
	w.change(ref, func(s *delivery.Status) { s.DeletingAt = time.Now() })
}

// share makes the loops of a bench work on a shared world.
func share(b *bench) *shared {
	b.target.linger = true
	w := &shared{world: b.target}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	b.relay = delivery.NewRelay(delivery.RelayConfig{Outbox: b.ledger, Bindings: b.ledger, Target: w, Ledger: b.instance, Owner: "relay", Logger: quiet})
	b.settler = delivery.NewSettler(delivery.SettlerConfig{Ledger: b.ledger, Target: w, Instance: b.instance, Doubt: b.doubt, Logger: quiet})
	b.reconciler = delivery.NewReconciler(delivery.ReconcilerConfig{Ledger: b.ledger, Target: w, Instance: b.instance, Doubt: b.doubt, Logger: quiet})
	return w
}

func (b *bench) credits(ref budget.Ref) int {
	b.Helper()
	journal, err := b.ledger.Journal(b.Context(), ref)
	b.must(err)
	n := 0
	for _, e := range journal {
		if e.Op == budget.OpRelease {
			n++
		}
	}
	return n
}

func (b *bench) saysByHand(ref budget.Ref) {
	b.Helper()
	audit, err := b.ledger.Audit(b.Context(), 100)
	b.must(err)
	for _, e := range audit {
		if e.What == delivery.ByHandAudit(ref) && strings.Contains(e.Why, "deleted by hand") {
			return
		}
	}
	b.Fatalf("the audit says nothing of a deletion by hand: %+v", audit)
}

// C137: the reservation ends, its slots come back once and only after the last
// replica, the object is not let go before the ledger knows, and nothing is
// made again.
func TestDeletionByHandIsARelease(t *testing.T) {
	t.Parallel()
	for name, bound := range map[string]bool{"bound": true, "not bound yet": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			w := share(b)
			ref := b.reserve("team-a", "demo", 7)
			if bound {
				b.deliver()
			} else { // it was made, and the relay died before it said so
				w.put(delivery.Desired{Ref: ref, Ledger: b.instance, Name: delivery.ObjectName(ref), Funded: 1})
			}
			w.change(ref, func(s *delivery.Status) { s.Replicas = []delivery.Replica{{Name: "pod", UID: "p"}} })
			w.deleteByHand(ref)
			applies := w.applies
			if s := b.reconcile(); len(s.Steps) != 0 || w.letGo != 0 {
				t.Fatalf("before the ledger knows: %+v, let go %d times", s, w.letGo)
			}
			if s := b.settle(); s.Count("released") != 1 {
				t.Fatalf("round %+v", s)
			}
			b.saysByHand(ref)
			b.deliver()
			for range 3 {
				b.settle()
				b.reconcile()
			}
			if b.state(ref) != budget.Reserved || w.letGo != 0 {
				t.Fatalf("a replica is left, and the request is %s, the object let go %d times", b.state(ref), w.letGo)
			}
			b.clean("team-a", 7)
			w.change(ref, func(s *delivery.Status) { s.Replicas = nil })
			b.settle()
			if s := b.settle(); s.Count("credited") != 1 || w.letGo != 1 {
				t.Fatalf("round %+v, let go %d times", s, w.letGo)
			}
			for range 3 {
				b.deliver()
				b.settle()
				b.reconcile()
			}
			if b.credits(ref) != 1 || w.applies != applies || len(w.objects) != 0 {
				t.Fatalf("%d credits, %d new applies, objects %+v", b.credits(ref), w.applies-applies, w.objects)
			}
			b.clean("team-a", 0)
		})
	}
}

// An object that disappeared unseen, its finalizer taken away by force, ends
// its reservation too; as long as Pods that carried its UID run, no credit.
func TestVanishedObjectIsARelease(t *testing.T) {
	t.Parallel()
	for name, leftover := range map[string]func(s *delivery.Status){
		"nothing is left": nil,
		"its Pods are left": func(s *delivery.Status) {
			s.Missing, s.Replicas = true, []delivery.Replica{{Name: "pod", UID: "p"}}
		},
		"and somebody took the name":  func(s *delivery.Status) { s.Earlier, s.Object.UID = []string{s.Object.UID}, "another" },
		"taken, and nothing was left": func(s *delivery.Status) { s.Object.UID = "another" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			w := share(b)
			ref := b.reserve("team-a", "demo", 7)
			b.deliver()
			uid := boundUID(b, ref)
			if leftover == nil {
				w.lose(ref)
			} else {
				w.change(ref, leftover)
			}
			applies := w.applies
			if s := b.settle(); s.Count("released") != 0 {
				t.Fatalf("settled what only a walk both ways may judge: %+v", s)
			}
			if s := b.reconcile(); s.Count("released") != 1 {
				t.Fatalf("round %+v", s)
			}
			b.saysByHand(ref)
			b.deliver()
			b.settle()
			if st, _ := w.Observe(t.Context(), ref); st.Holds(uid) {
				if b.state(ref) != budget.Reserved {
					t.Fatal("credited while its Pods run")
				}
				b.clean("team-a", 7)
				w.change(ref, func(s *delivery.Status) { s.Earlier = nil })
				if st.Missing {
					w.lose(ref)
				}
				b.settle()
			}
			if b.credits(ref) != 1 || w.applies != applies {
				t.Fatalf("%d credits, %d new applies", b.credits(ref), w.applies-applies)
			}
			b.clean("team-a", 0)
		})
	}
}

// Many at once are not believed, unless each says itself that it is being deleted.
func TestManyVanishedObjectsAreNotReleased(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := share(b)
	var refs []budget.Ref
	for i := range 12 {
		refs = append(refs, b.reserve("team-a", fmt.Sprintf("m-%d", i), 1))
	}
	b.deliver()
	for _, ref := range refs[:11] {
		w.change(ref, func(s *delivery.Status) { s.Missing = true })
	}
	if s := b.reconcile(); s.Count("doubted") != 1 || s.Count("released") != 0 {
		t.Fatalf("round %+v", s)
	}
	w.deleteByHand(refs[11])
	if s, err := b.settler.Round(t.Context(), 0); err == nil || s.Count("released") != 0 {
		t.Fatalf("released in doubt: %+v", s)
	}
	for _, ref := range refs[:11] { // the view was wrong
		w.change(ref, func(s *delivery.Status) { s.Missing = false })
	}
	b.reconcile()
	for _, ref := range refs {
		w.deleteByHand(ref)
	}
	if s := b.settle(); s.Count("released") != 12 {
		t.Fatalf("round %+v", s)
	}
}

// A list that is a moment old, or a target that cannot be read, ends nothing.
func TestWhatAnOldListLacksIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := share(b)
	ref := b.reserve("team-a", "demo", 7)
	b.deliver()
	old := &staleList{shared: w}
	b.reconciler = delivery.NewReconciler(delivery.ReconcilerConfig{Ledger: b.ledger, Target: old, Instance: b.instance, Doubt: b.doubt})
	if s := b.reconcile(); len(s.Steps) != 0 || b.doubt.Why() != "" {
		t.Fatalf("round %+v, doubt %q", s, b.doubt.Why())
	}
	w.unreadable = errors.New("the API server is away")
	if s, err := b.reconciler.Round(t.Context()); err == nil || s.Count("released") != 0 {
		t.Fatalf("round %+v, %v", s, err)
	}
	r, err := b.ledger.Get(t.Context(), ref)
	b.must(err)
	if !r.ReleaseRequestedAt.IsZero() {
		t.Fatal("released for an old list")
	}
}

type staleList struct{ *shared }

func (*staleList) List(context.Context) ([]delivery.Status, error) { return nil, nil }

// What no reservation waits for is let go by the reconciler.
func TestDeletedOrphansAreLetGo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := share(b)
	unknown := budget.Ref{Tenant: "team-a", ID: "unknown"}
	foreign := budget.Ref{Tenant: "team-a", ID: "foreign"}
	w.put(delivery.Desired{Ref: unknown, Ledger: b.instance, Name: "unknown", Funded: 1})
	w.put(delivery.Desired{Ref: foreign, Ledger: "another", Name: "foreign", Funded: 1})
	w.deleteByHand(unknown)
	w.deleteByHand(foreign)
	b.reconcile()
	if w.objects[unknown] != nil || w.objects[foreign] == nil {
		t.Fatalf("objects %+v", w.objects)
	}
}
