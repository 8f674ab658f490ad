package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modeldock.io/test/cluster"
	"modeldock.io/test/cluster/dock"
	"modeldock.io/test/cluster/management"
)

// killEvery is the time between two kills.
const killEvery = 5 * time.Second

// TestControllersKilled kills controllers with -9 every 5 s, now one and then
// both, while requests are submitted, scaled and released. Afterwards the
// ledger is clean, nothing is left on the cluster, nothing is stuck, no object
// was lost or ended by itself, and every acknowledged request was paid and
// given back once.
func TestControllersKilled(t *testing.T) {
	t.Parallel()
	b := setup(t, cluster.Options{ControlPlaneOnly: true}, dock.Options{PoolCap: 24, TenantCap: 12, Flags: []string{"--reconcile-every", "2s"}})
	if err := b.cluster.AddSimulatedNodes(t.Context(), 2, cluster.NodeTemplate{NoTaint: true}); err != nil {
		t.Fatal(err)
	}
	w := &work{b: b, total: formOf(40, 200)}
	done := make(chan struct{})
	go func() { defer close(done); w.run(t.Context()) }()
	kills := b.killUntil(done, formOf(3, 10))
	t.Logf("%d kills; %d submits, %d changes of replicas and %d releases acknowledged; %d were ready; %d calls met a dying process",
		kills, w.submits.Load(), w.scales.Load(), w.releases.Load(), w.ready.Load(), w.failures.Load())
	// Whether a call meets a dying process is luck in the short form.
	if w.scales.Load() == 0 || w.ready.Load() == 0 || (long() && w.failures.Load() == 0) {
		t.Error("this run proves nothing: nobody was scaled, or ready, or no call met a dying process")
	}
	w.settled()
}

// killUntil kills until the work is done, at least so many times.
func (b *bundle) killUntil(done <-chan struct{}, least int) (kills int) {
	b.t.Helper()
	tick := time.NewTicker(killEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			if kills >= least {
				return kills
			}
			done = nil // the rest of the kills meet what is still going away
		case <-tick.C:
		}
		if done == nil && kills >= least {
			return kills
		}
		victims := []*dock.Process{b.dock.Controllers[kills%2]}
		if kills%3 == 2 {
			victims = b.dock.Controllers
		}
		for _, v := range victims {
			if err := v.Kill(); err != nil {
				b.t.Fatal(err)
			}
		}
		for _, v := range victims {
			if err := v.Start(b.t.Context()); err != nil {
				b.t.Fatal(err)
			}
		}
		kills++
	}
}

// work is what tenants do and were told.
type work struct {
	b     *bundle
	total int

	next                                       atomic.Int64
	submits, scales, releases, ready, failures atomic.Int64
	mu                                         sync.Mutex
	acked                                      []request
}

type request struct{ tenant, id string }

// run has twelve clients make all requests.
func (w *work) run(ctx context.Context) {
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			for n := int(w.next.Add(1)); n <= w.total && ctx.Err() == nil; n = int(w.next.Add(1)) {
				w.one(ctx, request{[]string{"team-a", "team-b"}[n%2], fmt.Sprintf("r%03d", n)}, n)
			}
		})
	}
	all.Wait()
}

// one submits, mostly scales, and releases. Every third waits until it is
// ready; the others are released at any moment of their start.
func (w *work) one(ctx context.Context, r request, n int) {
	body := map[string]any{"id": r.id, "cost": 1, "priority": n % 3}
	if !w.told(ctx, r, http.MethodPost, "/requests", func(management.Client) (any, bool) { return body, true }) {
		return
	}
	w.submits.Add(1)
	w.mu.Lock()
	w.acked = append(w.acked, r)
	w.mu.Unlock()
	if n%3 == 0 {
		w.awaitReady(ctx, r)
	}
	for _, replicas := range [][]int{{}, {2}, {2, 1}, {3, 1, 2}}[n%4] {
		w.pause(ctx)
		if w.scale(ctx, r, replicas) {
			w.scales.Add(1)
		}
	}
	w.pause(ctx)
	if record, ok := w.read(ctx, r); ok && record.ReleaseRequestedAt != nil {
		w.b.t.Errorf("%s is being released, and nobody has asked for that: %+v", r.id, record)
	}
	if w.told(ctx, r, http.MethodPost, "/requests/"+r.id+"/release", func(management.Client) (any, bool) { return nil, true }) {
		w.releases.Add(1)
	}
}

func (w *work) pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(rand.IntN(1500)) * time.Millisecond): // the random moment
	}
}

// scale asks for replicas, for the generation that the request has; false where
// there are no slots, or somebody else was sooner.
func (w *work) scale(ctx context.Context, r request, replicas int) bool {
	return w.told(ctx, r, http.MethodPatch, "/requests/"+r.id, func(c management.Client) (any, bool) {
		var record management.Record
		if err := c.Call(ctx, http.MethodGet, "/requests/"+r.id, nil, &record); err != nil {
			return nil, false
		}
		return map[string]any{"generation": record.Generation, "replicas": map[string]any{"min": replicas}}, true
	})
}

// told repeats a call at random controllers until one answers: true for yes,
// false for a refusal.
func (w *work) told(ctx context.Context, r request, method, path string, body func(management.Client) (any, bool)) bool {
	for ctx.Err() == nil {
		c := w.b.as(r.tenant, rand.IntN(2))
		if content, ok := body(c); ok {
			err := c.Call(ctx, method, path, content, nil)
			var refused *management.RefusedError
			switch {
			case err == nil:
				return true
			case errors.As(err, &refused) && refused.Status == http.StatusConflict:
				return false
			case errors.As(err, &refused) && refused.Status < http.StatusInternalServerError:
				w.b.t.Errorf("%s: %v", r.id, err)
				return false
			}
		}
		w.failures.Add(1)
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	return false
}

func (w *work) read(ctx context.Context, r request) (management.Record, bool) {
	for ctx.Err() == nil {
		var record management.Record
		if w.b.as(r.tenant, rand.IntN(2)).Call(ctx, http.MethodGet, "/requests/"+r.id, nil, &record) == nil {
			return record, true
		}
		w.failures.Add(1)
		time.Sleep(50 * time.Millisecond)
	}
	return management.Record{}, false
}

func (w *work) awaitReady(ctx context.Context, r request) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		record, ok := w.read(ctx, r)
		if !ok {
			return
		}
		if ready(record) {
			w.ready.Add(1)
			return
		}
	}
	w.b.t.Errorf("%s was not ready within %s", r.id, patience)
}

// settled looks at the end of everything.
func (w *work) settled() {
	b := w.b
	b.t.Helper()
	b.eventually("the end of all requests", func(ctx context.Context) string {
		left := ""
		for _, state := range []string{"waiting", "reserved"} {
			records, err := b.admin.List(ctx, state)
			if err != nil {
				return err.Error()
			}
			for _, r := range records {
				left += fmt.Sprintf("%s %s (%s: %s)\n", r.ID, r.State, r.Reason, r.Message)
			}
		}
		return left
	})
	b.nothingLeft()
	b.verified()
	reserved := 0
	for _, r := range w.acked {
		record, err := b.record(b.t.Context(), r.tenant, r.id)
		if err != nil {
			b.t.Errorf("the acknowledged request %s is lost: %v", r.id, err)
			continue
		}
		if record.Held != 0 || (record.State != "released" && record.State != "expired") {
			b.t.Errorf("%s ended as %+v", r.id, record)
		}
		if b.paidOnce(r.tenant, r.id) {
			reserved++
		}
	}
	if len(w.acked) != w.total || reserved == 0 {
		b.t.Errorf("%d of %d requests were acknowledged, %d of them reserved", len(w.acked), w.total, reserved)
	}
	for _, tenant := range []string{"team-a", "team-b"} {
		if used := b.used(tenant); used != 0 {
			b.t.Errorf("%s still uses %d slots", tenant, used)
		}
	}
	for _, what := range []string{"what=lost", "what=orphan", "what=doubted", "what=released"} {
		if found := b.said("ledger and target differ", what); len(found) > 0 {
			b.t.Errorf("%d times %s, the first: %s", len(found), what, found[0])
		}
	}
}
