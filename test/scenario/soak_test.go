//go:build soak

package scenario_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/test/onemachine"
	"modeldock.io/test/scenario"
)

// TestKillNineUnderLoad kills `modeldock up` with -9 at random moments while
// tenants submit, call and release. After every restart the ledger is clean,
// nothing but the models of live reservations runs, every reserved model
// comes back, and no slot is lost.
func TestKillNineUnderLoad(t *testing.T) {
	kills, err := strconv.Atoi(os.Getenv("MODELDOCK_SOAK_KILLS"))
	if err != nil || kills < 1 {
		t.Fatalf("MODELDOCK_SOAK_KILLS must be a positive number, is %q", os.Getenv("MODELDOCK_SOAK_KILLS"))
	}
	m := onemachine.New(t)
	admin := scenario.As(t, m, "admin")
	for _, team := range []string{"team-a", "team-b"} {
		admin.Must(200, "PUT", "/tenants/"+team+"/quota", map[string]any{"cap": 4})
	}
	var work load
	for kill := range kills {
		releaseSome(t, m)
		work.start(m, kill)
		time.Sleep(time.Duration(50+rand.IntN(1500)) * time.Millisecond) // the random moment
		m.Crash(t)
		work.stop()
		started := time.Now()
		m.Start(t)
		scenario.VerifyClean(t, m)
		live := settle(t, m)
		t.Logf("kill %d: %d live models back after %s; so far %d submits, %d streams, %d releases", kill+1, live, time.Since(started).Round(time.Millisecond), work.submits.Load(), work.streams.Load(), work.releases.Load())
	}
	drainAll(t, m)
}

// settle waits until everything reserved is ready, or gone if it was being
// released, and checks that no other process is left.
func settle(t *testing.T, m *onemachine.Machine) int {
	t.Helper()
	var rows []scenario.Record
	scenario.Eventually(t, "all reserved models to be back", func() bool {
		rows = list(t, m, "reserved")
		for _, r := range rows {
			if r.ReleaseRequestedAt != "" || r.ReadyReplicas == 0 {
				return false
			}
		}
		return true
	}, func() any { return rows })
	owned := map[int]bool{}
	for _, r := range rows {
		pids := m.Processes(t, objectName(r.Tenant, r.ID))
		if len(pids) == 0 {
			t.Errorf("%s/%s is ready without a process", r.Tenant, r.ID)
		}
		for _, pid := range pids {
			owned[pid] = true
		}
	}
	// One supervisor per engine and nothing else.
	scenario.Eventually(t, "orphans to be gone", func() bool { return len(strangers(t, m, owned)) <= len(owned) }, func() any { return strangers(t, m, owned) })
	used := map[string]int64{}
	for _, r := range list(t, m, "reserved") {
		used[r.Tenant] += r.Held
	}
	for _, team := range []string{"team-a", "team-b"} {
		if u := scenario.Quota(t, m, team); u.Used != used[team] {
			t.Errorf("%s uses %d slots, its reservations hold %d", team, u.Used, used[team])
		}
	}
	return len(rows)
}

func objectName(tenant, id string) string {
	return delivery.ObjectName(budget.Ref{Tenant: tenant, ID: id})
}

// releaseSome makes room for the next round's load: what waits is cancelled,
// and of what runs every other one is released.
func releaseSome(t *testing.T, m *onemachine.Machine) {
	t.Helper()
	for _, r := range list(t, m, "waiting") {
		scenario.As(t, m, r.Tenant).Release(r.ID)
	}
	for i, r := range list(t, m, "reserved") {
		if i%2 == 0 {
			scenario.As(t, m, r.Tenant).Release(r.ID)
		}
	}
}

func strangers(t *testing.T, m *onemachine.Machine, owned map[int]bool) []int {
	var out []int
	for _, pid := range m.Processes(t, "") {
		if !owned[pid] {
			out = append(out, pid)
		}
	}
	return out
}

func list(t *testing.T, m *onemachine.Machine, state string) []scenario.Record {
	t.Helper()
	var page struct{ Items []scenario.Record }
	a := scenario.As(t, m, "admin").Must(http.StatusOK, "GET", "/requests?limit=1000&state="+state, nil)
	if err := json.Unmarshal(a.Body, &page); err != nil {
		t.Fatal(err)
	}
	return page.Items
}

// drainAll releases everything and checks that each slot came back once.
func drainAll(t *testing.T, m *onemachine.Machine) {
	t.Helper()
	admin := scenario.As(t, m, "admin")
	for _, state := range []string{"waiting", "reserved"} {
		for _, r := range list(t, m, state) {
			admin.Must(202, "POST", "/requests/"+r.ID+"/release?tenant="+r.Tenant, nil)
		}
	}
	scenario.Eventually(t, "all slots to come back", func() bool {
		return scenario.Quota(t, m, "team-a").Used == 0 && scenario.Quota(t, m, "team-b").Used == 0
	}, func() any { return list(t, m, "reserved") })
	scenario.VerifyClean(t, m)
	m.NoProcesses(t)
}

// load is what tenants do meanwhile. Errors are expected: the server dies.
type load struct {
	cancel                     context.CancelFunc
	wg                         sync.WaitGroup
	submits, streams, releases atomic.Int64
}

func (l *load) start(m *onemachine.Machine, round int) {
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	url := m.API()
	for w := range 6 {
		l.wg.Add(1)
		team := []string{"team-a", "team-b"}[w%2]
		key := m.Key(team)
		go func() {
			defer l.wg.Done()
			for i := 0; ctx.Err() == nil; i++ {
				id := fmt.Sprintf("k%d-w%d-%d", round, w, i)
				if call(ctx, url, key, "POST", "/requests", `{"id":"`+id+`","cost":1,"priority":50,"model":{"gpuMemoryMiB":2048,"args":["--load-time=100ms"]}}`) == 202 {
					l.submits.Add(1)
				}
				streamed := call(ctx, url, key, "POST", "/v1/chat/completions", `{"model":"`+id+`","stream":true,"messages":[{"role":"user","content":"x"}]}`) == 200
				if streamed {
					l.streams.Add(1)
				}
				// Few are kept, so that there is room for the next ones.
				if (!streamed || rand.IntN(8) > 0) && call(ctx, url, key, "POST", "/requests/"+id+"/release", "") == 202 {
					l.releases.Add(1)
				}
			}
		}()
	}
}

func (l *load) stop() {
	l.cancel()
	l.wg.Wait()
}

func call(ctx context.Context, url, key, method, path, body string) int {
	_, status := fetch(ctx, url, key, method, path, body)
	return status
}

// fetch reads an answer whole; status 0 says that there was none.
func fetch(ctx context.Context, url, key, method, path, body string) ([]byte, int) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url+path, strings.NewReader(body))
	if err != nil {
		return nil, 0
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("X-Modeldock-Wait", "1")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, 0
	}
	defer func() { _ = resp.Body.Close() }()
	answer, _ := io.ReadAll(resp.Body) // a stream that breaks off is no matter here
	return answer, resp.StatusCode
}
