package delivery_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/modelspec"
)

// world is a target that keeps objects in memory and does what a test tells
// it. It stands for any target: names, UIDs and deletion behave as agreed.
type world struct {
	mu      sync.Mutex
	objects map[budget.Ref]*delivery.Status
	gone    map[budget.Ref]delivery.Status // what is remembered
	made    int
	applies int

	ApplyFunc  func(d delivery.Desired) error // before anything is done
	AfterApply func(d delivery.Desired) error // after it took effect
	BeforeList func()
	linger     bool // deletion starts but does not end
}

func (w *world) Apply(_ context.Context, d delivery.Desired) (budget.Object, error) {
	if w.ApplyFunc != nil {
		if err := w.ApplyFunc(d); err != nil {
			return budget.Object{}, err
		}
	}
	obj := w.put(d)
	if w.AfterApply != nil {
		if err := w.AfterApply(d); err != nil {
			return budget.Object{}, err
		}
	}
	return obj, nil
}

func (w *world) put(d delivery.Desired) budget.Object {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.applies++
	st := w.objects[d.Ref]
	if st == nil {
		w.made++
		uid := d.UID
		if uid == "" {
			uid = fmt.Sprintf("uid-%d", w.made)
		}
		st = &delivery.Status{Ref: d.Ref, Ledger: d.Ledger, Exists: true, Object: budget.Object{Name: d.Name, UID: uid}}
		w.objects[d.Ref] = st
	}
	if d.Generation >= st.Generation {
		st.Wanted, st.Asked, st.Funded, st.Generation = d.Funded, d.Funded, d.Funded, d.Generation
	}
	return st.Object
}

func (w *world) Delete(_ context.Context, ref budget.Ref, uid string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	st := w.objects[ref]
	if st == nil || (uid != "" && st.Object.UID != uid) {
		return nil
	}
	st.DeletingAt = time.Now()
	if !w.linger {
		delete(w.objects, ref)
		w.gone[ref] = delivery.Status{Ref: ref, Object: st.Object, Last: st.Last}
	}
	return nil
}

func (w *world) Observe(_ context.Context, ref budget.Ref) (delivery.Status, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if st := w.objects[ref]; st != nil {
		return *st, nil
	}
	if st, known := w.gone[ref]; known {
		return st, nil
	}
	return delivery.Status{Ref: ref}, nil
}

func (w *world) List(context.Context) ([]delivery.Status, error) {
	if w.BeforeList != nil {
		w.BeforeList()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []delivery.Status
	for _, st := range w.objects {
		out = append(out, *st)
	}
	return out, nil
}

func (w *world) lose(ref budget.Ref) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.objects, ref)
}

func (w *world) change(ref budget.Ref, f func(*delivery.Status)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w.objects[ref])
}

// bench is a fresh SQLite ledger with everything that delivers from it.
type bench struct {
	*testing.T
	ledger     *sqlledger.Ledger
	instance   string
	target     *world
	relay      *delivery.Relay
	settler    *delivery.Settler
	reconciler *delivery.Reconciler
	doubt      *delivery.Doubt

	mu  sync.Mutex
	now time.Time
}

func (b *bench) clock() time.Time { b.mu.Lock(); defer b.mu.Unlock(); return b.now }

// pass lets time go by: pauses and leases end.
func (b *bench) pass(d time.Duration) { b.mu.Lock(); defer b.mu.Unlock(); b.now = b.now.Add(d) }

func setup(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, now: time.Unix(1_800_000_000, 0), doubt: &delivery.Doubt{}}
	var err error
	b.ledger, err = sqlledger.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), sqlledger.Options{Clock: b.clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.ledger.Close() })
	b.instance, _, err = b.ledger.Identity(t.Context())
	b.must(err)
	_, err = b.ledger.SetPool(t.Context(), budget.DefaultPool, 1000)
	b.must(err)
	for _, tenant := range []string{"team-a", "team-b"} {
		_, err = b.ledger.SetQuota(t.Context(), tenant, 1000)
		b.must(err)
	}
	b.target = &world{objects: map[budget.Ref]*delivery.Status{}, gone: map[budget.Ref]delivery.Status{}}
	b.wire(func(string) {})
	return b
}

// wire makes new loops, as a restart does.
func (b *bench) wire(crash func(string)) {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	b.relay = delivery.NewRelay(delivery.RelayConfig{
		Outbox: b.ledger, Bindings: b.ledger, Target: b.target, Ledger: b.instance, Owner: "relay",
		Random: func() float64 { return 0 }, Logger: quiet, Crash: crash,
	})
	b.settler = delivery.NewSettler(delivery.SettlerConfig{
		Ledger: b.ledger, Target: b.target, Instance: b.instance, Doubt: b.doubt, Logger: quiet, Crash: crash,
	})
	b.reconciler = delivery.NewReconciler(delivery.ReconcilerConfig{
		Ledger: b.ledger, Target: b.target, Instance: b.instance, Doubt: b.doubt, Logger: quiet,
	})
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// reserve submits and admits one request.
func (b *bench) reserve(tenant, id string, cost int64) budget.Ref {
	b.Helper()
	ref := budget.Ref{Tenant: tenant, ID: id}
	_, err := b.ledger.Submit(b.Context(), budget.Submission{
		Ref: ref, Cost: cost, Priority: 50, Pool: budget.DefaultPool, TTL: time.Hour, Model: modelspec.Default(id),
	})
	b.must(err)
	admitted, err := b.ledger.Admit(b.Context(), 0)
	b.must(err)
	if len(admitted) == 0 {
		b.Fatalf("%s/%s was not admitted", tenant, id)
	}
	return ref
}

func (b *bench) release(ref budget.Ref) {
	b.Helper()
	_, err := b.ledger.RequestRelease(b.Context(), ref)
	b.must(err)
}

func (b *bench) deliver() delivery.Summary {
	b.Helper()
	s, err := b.relay.Round(b.Context(), 100)
	b.must(err)
	return s
}

func (b *bench) settle() delivery.Summary {
	b.Helper()
	s, err := b.settler.Round(b.Context(), 0)
	b.must(err)
	return s
}

func (b *bench) reconcile() delivery.Summary {
	b.Helper()
	s, err := b.reconciler.Round(b.Context())
	b.must(err)
	return s
}

func (b *bench) state(ref budget.Ref) budget.State {
	b.Helper()
	r, err := b.ledger.Get(b.Context(), ref)
	b.must(err)
	return r.State
}

// clean checks every invariant, and how much the tenant uses.
func (b *bench) clean(tenant string, used int64) {
	b.Helper()
	report, err := b.ledger.Verify(b.Context())
	b.must(err)
	if !report.Clean() {
		b.Fatalf("violations %+v", report.Violations)
	}
	got, err := b.ledger.Tenant(b.Context(), tenant)
	b.must(err)
	if got.Used != used {
		b.Fatalf("%s uses %d slots, want %d", tenant, got.Used, used)
	}
}
