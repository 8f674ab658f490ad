//go:build soak && mariadb

package scenario_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modeldock.io/test/onemachine"
	"modeldock.io/test/scenario"
)

const (
	killEvery   = 300 * time.Millisecond
	soakClients = 64
)

// TestKillAnyOfMany kills a random one of two management APIs, two admitters
// and two relays with -9 every 300 ms, while 64 clients submit and release
// through whichever API they meet. At sampled moments and afterwards no
// invariant is broken; afterwards nothing is stuck, and of what was
// acknowledged nothing is lost and everything was paid and given back once.
func TestKillAnyOfMany(t *testing.T) {
	seconds, err := strconv.Atoi(os.Getenv("MODELDOCK_SOAK_SECONDS"))
	if err != nil || seconds < 1 {
		t.Fatalf("MODELDOCK_SOAK_SECONDS must be a positive number, is %q", os.Getenv("MODELDOCK_SOAK_SECONDS"))
	}
	// The machine only runs models: its own accounts stand still.
	m := onemachine.NewShared(t, server(t), []string{"--manual"}, "api", "api", "admit", "admit", "deliver", "deliver")
	admin := scenario.As(t, m, "admin")
	for _, team := range []string{"team-a", "team-b"} {
		admin.Must(200, "PUT", "/tenants/"+team+"/quota", map[string]any{"cap": 6})
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Duration(seconds)*time.Second)
	defer stop()
	w := &churn{m: m, apis: m.Controllers()[:2]}
	var all sync.WaitGroup
	for i := range soakClients {
		all.Go(func() { w.client(ctx, i) })
	}
	var samples atomic.Int64
	all.Go(func() { sampleViolations(ctx, t, m, &samples) })
	kills := 0
	for tick := time.NewTicker(killEvery); ctx.Err() == nil; <-tick.C {
		victim := m.Controllers()[rand.IntN(len(m.Controllers()))]
		victim.Kill(t)
		victim.Start(t)
		kills++
	}
	all.Wait()
	t.Logf("%d kills in %d s; %d submits and %d releases acknowledged, %d calls met a dying process; verified %d times meanwhile",
		kills, seconds, w.submits.Load(), w.releases.Load(), w.failures.Load(), samples.Load())
	w.settled(t)
}

// sampleViolations verifies through the one process that is not killed.
func sampleViolations(ctx context.Context, t *testing.T, m *onemachine.Machine, samples *atomic.Int64) {
	for ctx.Err() == nil {
		body, status := fetch(context.WithoutCancel(ctx), m.Gateway(), m.Key("admin"), "GET", "/ledger/verify", "")
		var report struct{ Violations []any }
		if status != http.StatusOK || json.Unmarshal(body, &report) != nil || len(report.Violations) > 0 {
			t.Errorf("verify during the run: status %d: %.600s", status, body)
			return
		}
		samples.Add(1)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// churn is the clients' work and what they were told.
type churn struct {
	m    *onemachine.Machine
	apis []*onemachine.Process

	submits, releases, failures atomic.Int64

	mu    sync.Mutex
	acked []ackedRequest
}

type ackedRequest struct{ tenant, id string }

// client submits a model and releases it, again and again, each until it is
// told that it happened.
func (w *churn) client(ctx context.Context, n int) {
	tenant := []string{"team-a", "team-b"}[n%2]
	for i := 0; ctx.Err() == nil; i++ {
		id := fmt.Sprintf("c%02d-%d", n, i)
		if !w.until(ctx, tenant, "/requests", `{"id":"`+id+`","cost":1,"priority":`+strconv.Itoa(i%3)+`,"model":{"gpuMemoryMiB":1024,"args":["--load-time=10ms"]}}`) {
			return
		}
		w.submits.Add(1)
		w.mu.Lock()
		w.acked = append(w.acked, ackedRequest{tenant, id})
		w.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(rand.IntN(1500)) * time.Millisecond):
		}
		if w.until(ctx, tenant, "/requests/"+id+"/release", "") {
			w.releases.Add(1)
		}
	}
}

// until repeats a call at random APIs until it is answered 202.
func (w *churn) until(ctx context.Context, tenant, path, body string) bool {
	for ctx.Err() == nil {
		api := w.apis[rand.IntN(len(w.apis))]
		if _, status := fetch(ctx, api.URL(), w.m.Key(tenant), "POST", path, body); status == http.StatusAccepted {
			return true
		}
		w.failures.Add(1)
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	return false
}

// settled releases what is left and looks at every acknowledged request.
func (w *churn) settled(t *testing.T) {
	t.Helper()
	for _, state := range []string{"waiting", "reserved"} {
		for _, r := range list(t, w.m, state) {
			if r.ReleaseRequestedAt == "" {
				scenario.As(t, w.m, "admin").Must(http.StatusAccepted, "POST", "/requests/"+r.ID+"/release?tenant="+r.Tenant, nil)
			}
		}
	}
	drainAll(t, w.m)
	if left := len(list(t, w.m, "waiting")) + len(list(t, w.m, "reserved")); left != 0 {
		t.Errorf("%d requests are stuck", left)
	}
	lost, odd := 0, 0
	for _, a := range w.acked {
		body, status := fetch(t.Context(), w.m.Gateway(), w.m.Key(a.tenant), "GET", "/requests/"+a.id, "")
		if status != http.StatusOK {
			lost++
			continue
		}
		var r scenario.Record
		if err := json.Unmarshal(body, &r); err != nil {
			t.Fatal(err)
		}
		if r.State != "released" || r.Held != 0 {
			t.Errorf("%s/%s ended as %s with %d slots", a.tenant, a.id, r.State, r.Held)
		}
	}
	entries := journalOf(t, w.m)
	for ref, slots := range entries {
		if len(slots) != 2 || slots[0]+slots[1] != 0 {
			odd++
			t.Logf("journal of %s: %v", ref, slots)
		}
	}
	if lost > 0 || odd > 0 {
		t.Errorf("%d acknowledged requests are lost, %d were not paid and given back once", lost, odd)
	}
	t.Logf("%d requests, %d of them were reserved", len(w.acked), len(entries))
}

// journalOf reads every debit and credit from the database itself.
func journalOf(t *testing.T, m *onemachine.Machine) map[string][]int64 {
	t.Helper()
	rows, err := openDatabase(t, m).Query(`SELECT tenant, id, slots FROM journal ORDER BY seq`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	entries := map[string][]int64{}
	for rows.Next() {
		var tenant, id string
		var slots int64
		if err := rows.Scan(&tenant, &id, &slots); err != nil {
			t.Fatal(err)
		}
		entries[tenant+"/"+id] = append(entries[tenant+"/"+id], slots)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return entries
}
