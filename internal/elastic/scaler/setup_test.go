package scaler_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/elastic"
	"modeldock.io/internal/elastic/scaler"
	"modeldock.io/internal/modelspec"
	"modeldock.io/internal/traffic"
)

// period is the pause between the rounds of a test.
const period = 5 * time.Second

// bench is a scaler over a fresh SQLite ledger and a scripted world.
type bench struct {
	*testing.T
	ledger *sqlledger.Ledger
	scaler *scaler.Scaler
	cfg    scaler.Config

	mu       sync.Mutex
	now      time.Time
	objects  map[budget.Ref]*object
	loads    scaler.Loads
	cardMiB  int64 // of the one card; 0: nobody makes room
	fail     func() error
	attempts int // of Scale
	lists    int // of all objects

	meanwhile func() // what happens while a round begins to read
}

// object is one model in the world: its replicas are ready at once, unless
// there is no room on the card.
type object struct {
	ref   budget.Ref
	model modelspec.Model
	asked int
	steps []delivery.ScalingStep
	since []time.Time // of each replica that runs
	made  int
	uids  []string
	other string // who else scales it
}

func (b *bench) clock() time.Time { b.mu.Lock(); defer b.mu.Unlock(); return b.now }

func (b *bench) pass(d time.Duration) { b.mu.Lock(); defer b.mu.Unlock(); b.now = b.now.Add(d) }

func setup(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, now: time.Unix(1_800_000_000, 0), objects: map[budget.Ref]*object{}}
	b.loads.Of = map[budget.Ref]traffic.Load{}
	var err error
	b.ledger, err = sqlledger.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), sqlledger.Options{Clock: b.clock})
	b.must(err)
	t.Cleanup(func() { _ = b.ledger.Close() })
	_, err = b.ledger.SetPool(t.Context(), budget.DefaultPool, 1000)
	b.must(err)
	b.quota("team-a", 100)
	b.cfg = scaler.Config{
		Period: period, Ledger: b.ledger, Target: b, Clock: b.clock, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Loads:       func(context.Context) (scaler.Loads, error) { b.mu.Lock(); defer b.mu.Unlock(); return b.loads, nil },
		Concurrency: func(modelspec.Model) int { return 4 },
		Cards:       b.cards,
	}
	b.restart()
	return b
}

// restart makes a new scaler that knows nothing, as after a kill.
func (b *bench) restart() { b.scaler = scaler.New(b.cfg) }

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) quota(tenant string, slots int64) {
	b.Helper()
	_, err := b.ledger.SetQuota(b.Context(), tenant, slots)
	b.must(err)
}

// serve submits, admits and delivers a model.
func (b *bench) serve(id string, least, most int, change ...func(*budget.Submission)) budget.Ref {
	b.Helper()
	ref := budget.Ref{Tenant: "team-a", ID: id}
	sub := budget.Submission{Ref: ref, Cost: 1, Priority: 50, Pool: budget.DefaultPool, TTL: time.Hour, Model: modelspec.Default(id)}
	sub.Model.Replicas = modelspec.Replicas{Min: least, Max: most}
	for _, c := range change {
		c(&sub)
	}
	_, err := b.ledger.Submit(b.Context(), sub)
	b.must(err)
	_, err = b.ledger.Admit(b.Context(), 0)
	b.must(err)
	b.mu.Lock()
	b.objects[ref] = &object{ref: ref, model: sub.Model, asked: sub.Model.Replicas.Funded()}
	b.mu.Unlock()
	b.load(ref, 0, 0)
	return ref
}

// load is what the gateways say from now on.
func (b *bench) load(ref budget.Ref, waiting, inFlight int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.loads.Of[ref]
	l.Owner, l.RequestID, l.Waiting, l.InFlight = ref.Tenant, ref.ID, waiting, inFlight
	if waiting+inFlight > 0 {
		l.LastRequest = b.now
	}
	b.loads.Of[ref] = l
}

// rounds makes one round every period for d.
func (b *bench) rounds(d time.Duration) {
	b.Helper()
	for end := b.clock().Add(d); b.clock().Before(end); b.pass(period) {
		b.round()
	}
}

func (b *bench) listed() int { b.mu.Lock(); defer b.mu.Unlock(); return b.lists }

func (b *bench) round() {
	b.Helper()
	b.must(b.scaler.Round(b.Context()))
}

// is checks what is asked for, paid for, and used.
func (b *bench) is(what string, ref budget.Ref, asked, funded int) {
	b.Helper()
	r, err := b.ledger.Get(b.Context(), ref)
	b.must(err)
	b.mu.Lock()
	have := b.objects[ref].asked
	b.mu.Unlock()
	if have != asked || r.Funded != funded {
		b.Errorf("%s: %d asked for and %d funded, want %d and %d", what, have, r.Funded, asked, funded)
	}
	report, err := b.ledger.Verify(b.Context())
	b.must(err)
	if !report.Clean() {
		b.Fatalf("%s: violations %+v", what, report.Violations)
	}
}

func (b *bench) explain(ref budget.Ref) scaler.Report {
	b.Helper()
	rep, err := b.scaler.Explain(b.Context(), ref)
	b.must(err)
	return rep
}

func (b *bench) latest(ref budget.Ref) elastic.Decision {
	b.Helper()
	if rep := b.explain(ref); rep.Latest != nil {
		return *rep.Latest
	}
	b.Fatalf("%s was never decided for", ref.ID)
	return elastic.Decision{}
}

// Scale implements delivery.Scalable.
func (b *bench) Scale(_ context.Context, ref budget.Ref, step delivery.ScalingStep) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.attempts++
	if b.fail != nil {
		if err := b.fail(); err != nil {
			return err
		}
	}
	o := b.objects[ref]
	if o == nil {
		return budget.ErrNotFound
	}
	if o.asked != step.From {
		return delivery.ErrScaled
	}
	o.asked, o.steps = step.To, delivery.Remember(o.steps, step)
	return nil
}

// Observe implements scaler.Target; the funded count reaches the object at once.
func (b *bench) Observe(ctx context.Context, ref budget.Ref) (delivery.Status, error) {
	r, err := b.ledger.Get(ctx, ref)
	if err != nil {
		return delivery.Status{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.objects[ref]
	if o == nil {
		return delivery.Status{Ref: ref}, nil
	}
	st := delivery.Status{
		Ref: ref, Object: budget.Object{UID: "uid-" + ref.ID}, Exists: true, Asked: o.asked, Funded: r.Funded, Wanted: min(o.asked, r.Funded), Scaling: o.steps, OtherScaler: o.other,
	}
	for len(o.uids) > st.Wanted {
		o.uids, o.since = o.uids[:len(o.uids)-1], o.since[:len(o.since)-1]
	}
	for len(o.uids) < st.Wanted && (b.cardMiB == 0 || b.free() >= o.model.GPUMemory) {
		o.made++
		o.uids, o.since = append(o.uids, fmt.Sprintf("%s-%d", ref.ID, o.made)), append(o.since, b.now)
	}
	for i, uid := range o.uids {
		st.Replicas = append(st.Replicas, delivery.Replica{UID: uid, Phase: delivery.PhaseReady, PlacedAt: o.since[i], ReadyAt: o.since[i]})
		st.Ready++
	}
	for range st.Wanted - len(o.uids) {
		st.Replicas = append(st.Replicas, delivery.Replica{Phase: delivery.PhasePending, Reason: delivery.NoFragmentFits})
	}
	return st, nil
}

func (b *bench) free() int64 {
	left := b.cardMiB
	for _, o := range b.objects {
		left -= int64(len(o.uids)) * o.model.GPUMemory
	}
	return left
}

// List implements scaler.Target.
func (b *bench) List(ctx context.Context) (list []delivery.Status, err error) {
	if f := b.meanwhile; f != nil {
		b.meanwhile = nil
		f()
	}
	b.mu.Lock()
	b.lists++
	var refs []budget.Ref
	for ref := range b.objects {
		refs = append(refs, ref)
	}
	b.mu.Unlock()
	// Who gets the card is no matter of luck.
	slices.SortFunc(refs, func(x, y budget.Ref) int { return cmp.Compare(x.ID, y.ID) })
	for _, ref := range refs {
		st, err := b.Observe(ctx, ref)
		if err != nil {
			return nil, err
		}
		list = append(list, st)
	}
	return list, nil
}

// patch asks for another minimum, as a person does through the ledger.
func (b *bench) patch(ref budget.Ref, least int) {
	b.Helper()
	r, err := b.ledger.Get(b.Context(), ref)
	b.must(err)
	replicas := modelspec.Replicas{Min: least, Max: r.Model.Replicas.Max}
	_, err = b.ledger.Patch(b.Context(), ref, budget.Patch{Generation: r.Generation, Replicas: &replicas})
	b.must(err)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.objects[ref].asked = max(b.objects[ref].asked, least)
}

func (b *bench) cards(context.Context) ([]scaler.Card, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cardMiB == 0 {
		return nil, nil
	}
	c := scaler.Card{UUID: "card-0", Node: "n", TotalMiB: b.cardMiB, FreeMiB: b.free()}
	for _, o := range b.objects {
		for _, uid := range o.uids {
			c.Holders = append(c.Holders, scaler.Holder{Replica: uid, MiB: o.model.GPUMemory})
		}
	}
	return []scaler.Card{c}, nil
}
