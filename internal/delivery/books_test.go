package delivery_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
	"modeldock.io/internal/delivery"
)

// questioned counts what is asked about single requests.
type questioned struct {
	*sqlledger.Ledger
	single, bulk atomic.Int64
}

func (q *questioned) Get(ctx context.Context, ref budget.Ref) (budget.Reservation, error) {
	q.single.Add(1)
	return q.Ledger.Get(ctx, ref)
}

func (q *questioned) Binding(ctx context.Context, ref budget.Ref) (budget.Binding, error) {
	q.single.Add(1)
	return q.Ledger.Binding(ctx, ref)
}

func (q *questioned) Intents(ctx context.Context, ref budget.Ref) ([]budget.Intent, error) {
	q.single.Add(1)
	return q.Ledger.Intents(ctx, ref)
}

func (q *questioned) List(ctx context.Context, f budget.Filter) ([]budget.Reservation, error) {
	q.bulk.Add(1)
	return q.Ledger.List(ctx, f)
}

func (q *questioned) LiveBindings(ctx context.Context) (map[budget.Ref]budget.Binding, error) {
	q.bulk.Add(1)
	return q.Ledger.LiveBindings(ctx)
}

// What a comparison asks the ledger does not grow with the number of requests
// that are as they should be.
func TestComparisonsAskForAllAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 20 {
		b.reserve("team-a", fmt.Sprintf("m-%d", i), 1)
	}
	b.deliver()
	ledger := &questioned{Ledger: b.ledger}
	r := delivery.NewReconciler(delivery.ReconcilerConfig{Ledger: ledger, Target: b.target, Instance: b.instance})
	s, err := r.Round(t.Context())
	b.must(err)
	if len(s.Steps) != 0 || ledger.single.Load() != 0 || ledger.bulk.Load() != 2 {
		t.Errorf("a round asked %d times for one request and %d times for all: %+v", ledger.single.Load(), ledger.bulk.Load(), s)
	}
	found, err := r.Compare(t.Context())
	b.must(err)
	if len(found) != 0 || ledger.single.Load() != 0 || ledger.bulk.Load() != 4 {
		t.Errorf("a comparison asked %d times for one request and %d times for all: %s", ledger.single.Load(), ledger.bulk.Load()-2, delivery.Few(found))
	}
}

// What is released, and gone, between the reading of the ledger and the list
// of the objects is not missed, however much it is.
func TestReleasedDuringTheComparisonIsNotLost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var refs []budget.Ref
	for i := range 20 {
		refs = append(refs, b.reserve("team-a", fmt.Sprintf("m-%d", i), 1))
	}
	b.deliver()
	b.target.BeforeList = func() {
		b.target.BeforeList = nil
		for _, ref := range refs[:15] {
			b.release(ref)
		}
		b.deliver()
	}
	if s := b.reconcile(); len(s.Steps) != 0 || b.doubt.Why() != "" {
		t.Fatalf("round %+v, doubt %q", s, b.doubt.Why())
	}
	b.settle()
	b.clean("team-a", 5)
}

// What is admitted, made and bound meanwhile is neither lost nor an orphan,
// and what was made and is bound only later is left to its delivery.
func TestDeliveredDuringTheComparisonIsNoDifference(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"admitted before": true, "admitted meanwhile": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			if before {
				b.reserve("team-a", "demo", 3)
			}
			b.target.BeforeList = func() {
				b.target.BeforeList = nil
				if !before {
					b.reserve("team-a", "demo", 3)
				}
				b.deliver()
			}
			for range 2 {
				if s := b.reconcile(); len(s.Steps) != 0 || b.target.applies != 1 {
					t.Fatalf("round %+v after %d applies", s, b.target.applies)
				}
			}
			b.clean("team-a", 3)
		})
	}
}

// While an older ledger is compared, a request is admitted and delivered by
// somebody else: that is no agreement yet, and nothing is dropped for it.
func TestAdmittedDuringTheComparisonIsComparedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.target.BeforeList = func() {
		b.target.BeforeList = nil
		b.reserve("team-a", "demo", 3)
		b.deliver()
	}
	found, err := b.reconciler.Compare(t.Context())
	b.must(err)
	if len(found) != 1 || found[0].Drops() {
		t.Fatalf("differences %s", delivery.Few(found))
	}
	found, err = b.reconciler.Compare(t.Context())
	b.must(err)
	if len(found) != 0 {
		t.Fatalf("compared again: %s", delivery.Few(found))
	}
}

// A release that comes while an older ledger is accepted is not answered by
// delivering its object once more.
func TestReleasedDuringTheDecisionIsNotDeliveredAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lost := b.reserve("team-a", "lost", 3)
	b.deliver()
	b.target.lose(lost)
	unknown := budget.Ref{Tenant: "team-a", ID: "unknown"}
	b.target.put(delivery.Desired{Ref: unknown, Ledger: b.instance, Name: "unknown", Funded: 1})
	applies := b.target.applies
	_, err := b.reconciler.Accept(t.Context(), func(delivery.Difference) error { b.release(lost); return nil })
	b.must(err)
	if b.target.applies != applies || len(b.target.objects) != 0 {
		t.Fatalf("%d objects, %d more applies", len(b.target.objects), b.target.applies-applies)
	}
	b.deliver()
	b.settle()
	b.clean("team-a", 0)
}
