package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"modeldock.io/test/cluster"
	"modeldock.io/test/cluster/dock"
	"modeldock.io/test/cluster/management"
)

const (
	// hiccupEvery is the time between two faults, hiccup how long one lasts.
	hiccupEvery = 15 * time.Second
	hiccup      = 5 * time.Second
)

// soakTime is MODELDOCK_SOAK_SECONDS, or two minutes.
func soakTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("MODELDOCK_SOAK_SECONDS")
	if text == "" {
		return 2 * time.Minute
	}
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds < 60 {
		t.Fatalf("MODELDOCK_SOAK_SECONDS must be a number of 60 or more, is %q", text)
	}
	return time.Duration(seconds) * time.Second
}

// TestSoak lets tenants submit, scale and release without a pause while a model
// is called, and every 15 s something goes wrong: a controller or a gateway is
// killed, the API server or the database is away. One controller and one gateway
// live through all of it: no call through that gateway fails, and in the end
// neither of them holds more memory, goroutines or open files than it did when
// the churn had begun. The ledger is right, and nothing is left.
func TestSoak(t *testing.T) {
	t.Parallel()
	b := setup(t, cluster.Options{}, dock.Options{PoolCap: 16, TenantCap: 8, Gateways: 2, Flags: []string{"--reconcile-every", "5s"}})
	b.submit(caller, running, map[string]any{"args": []string{"--token-time=50ms", "--tokens=40"}})
	b.until(caller, running, "readiness", ready)
	b.answers(running)
	// What comes and goes has nodes of its own, which cost next to nothing.
	nodes, err := b.cluster.Kubectl(t.Context(), "get", "nodes", "-o", "name")
	b.must(err)
	_, err = b.cluster.Kubectl(t.Context(), append([]string{"cordon"}, strings.Fields(nodes)...)...)
	b.must(err)
	b.must(b.cluster.AddSimulatedNodes(t.Context(), 2, cluster.NodeTemplate{NoTaint: true}))

	w := &work{b: b, total: math.MaxInt}
	calls := b.traffic(caller, running)
	ctx, stop := context.WithTimeout(t.Context(), soakTime(t))
	defer stop()
	var all sync.WaitGroup
	all.Go(func() { w.run(ctx) })
	trends := map[string]*trend{"controller": {process: b.dock.Controllers[0]}, "gateway": {process: b.dock.Gateways[0]}}
	for _, one := range trends {
		all.Go(func() { one.watch(ctx, t) })
	}
	hiccups := b.hiccups(ctx)
	all.Wait()
	calls.end("the soak")
	w.total = len(w.acked)
	w.releaseAll()
	b.release(caller, running)
	w.settled()
	report := map[string]any{
		"bench": "soak", "seconds": soakTime(t).Seconds(), "hiccups": hiccups, "submits": w.submits.Load(), "scales": w.scales.Load(), "releases": w.releases.Load(),
		"ready": w.ready.Load(), "streams": calls.streams.Load(), "answers": calls.asks.Load(), "callsFailed": len(calls.failures),
	}
	for name, one := range trends {
		report[name] = one.judge(b, name)
	}
	line, err := json.Marshal(report)
	b.must(err)
	t.Logf("%s", line)
	if w.submits.Load() < 10 || w.ready.Load() == 0 || hiccups < 4 {
		t.Error("this run proves nothing: too little happened")
	}
}

// hiccups makes one fault after the other until ctx ends, each healed before
// the next.
func (b *bundle) hiccups(ctx context.Context) (made int) {
	b.t.Helper()
	again := func(p *dock.Process) {
		b.must(p.Kill())
		b.must(p.Start(b.t.Context()))
	}
	faults := []func(){
		func() { again(b.dock.Controllers[1]) },
		func() {
			b.must(b.cluster.StopAPIServer())
			pause(ctx, hiccup)
			b.must(b.cluster.StartAPIServer(b.t.Context()))
		},
		func() { again(b.dock.Gateways[1]) },
		func() {
			b.must(b.dock.Database.Halt())
			pause(ctx, hiccup)
			b.must(b.dock.Database.Resume(b.t.Context()))
		},
	}
	for pause(ctx, hiccupEvery) {
		faults[made%len(faults)]()
		made++
	}
	return made
}

// pause is false if ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// releaseAll asks for the end of everything that the churn left.
func (w *work) releaseAll() {
	for _, r := range w.acked {
		w.told(w.b.t.Context(), r, http.MethodPost, "/requests/"+r.id+"/release", func(management.Client) (any, bool) { return nil, true })
	}
	w.b.eventually("the end of the churn", func(ctx context.Context) string {
		for _, r := range w.acked {
			if record, err := w.b.record(ctx, r.tenant, r.id); err != nil || record.Held != 0 {
				return fmt.Sprintf("%s: %+v, %v", r.id, record, err)
			}
		}
		return ""
	})
}
