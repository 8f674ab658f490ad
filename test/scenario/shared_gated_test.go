//go:build mariadb

package scenario_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modeldock.io/test/onemachine"
	"modeldock.io/test/scenario"
)

// callers call without pause through a Service and keep what went wrong.
type callers struct {
	g    *onemachine.Gated
	good atomic.Int64
	long atomic.Int64 // streams of seconds that came to their end

	mu     sync.Mutex
	failed []string
}

func (c *callers) fail(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = append(c.failed, fmt.Sprintf(format, args...))
}

// ask makes one request and reads its answer to the end.
func (c *callers) ask(s *onemachine.Service, who, method, path, body string, want int, ends string) bool {
	url, answered, done := s.Take()
	defer done()
	began := time.Now()
	r, err := http.NewRequestWithContext(context.Background(), method, url+path, strings.NewReader(body))
	if err == nil {
		r.Header.Set("Authorization", "Bearer "+c.g.Key(who))
		var resp *http.Response
		if resp, err = http.DefaultClient.Do(r); err == nil {
			answered()
			defer func() { _ = resp.Body.Close() }()
			last, status := "", resp.StatusCode
			for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
				if lines.Text() != "" {
					last = lines.Text()
				}
			}
			if status == want && strings.HasSuffix(last, ends) {
				c.good.Add(1)
				return true
			}
			err = fmt.Errorf("status %d, ends with %.200q", status, last)
		}
	}
	c.fail("%s %s at %s after %s: %v", method, path, url, time.Since(began).Round(time.Millisecond), err)
	return false
}

func (c *callers) chat(model string) bool {
	return c.ask(c.g.Gateways, "team-a", "POST", "/v1/chat/completions", `{"model":"`+model+`","stream":true,"messages":[{"role":"user","content":"hi"}]}`, http.StatusOK, "data: [DONE]")
}

// TestSharedRollingRestart replaces every controller and every gateway, one
// after the other, as a rollout does, while callers call, stream for seconds,
// and submit and release: no request fails, no stream is cut, no model begins
// anew, and the ledger is right.
func TestSharedRollingRestart(t *testing.T) {
	t.Parallel()
	g := onemachine.NewGated(t, server(t), 2, 2)
	a := scenario.As(t, g, "team-a")
	a.Submit("quick", 1, map[string]any{"model": map[string]any{"args": []string{"--tokens=4", "--ttft=5ms", "--concurrency=64"}}})
	a.Submit("slow", 1, map[string]any{"model": map[string]any{"args": []string{"--tokens=60", "--token-time=50ms", "--concurrency=64"}}})
	before := map[string]string{"quick": replica(t, a, "quick"), "slow": replica(t, a, "slow")}

	c := &callers{g: g}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	every := func(n int, do func(i int)) {
		for i := range n {
			all.Go(func() {
				for ctx.Err() == nil {
					do(i)
				}
			})
		}
	}
	every(3, func(int) { c.chat("quick") })
	every(4, func(int) {
		if c.chat("slow") {
			c.long.Add(1)
		}
	})
	every(1, func(int) { c.ask(g.Controllers, "team-a", "GET", "/requests", "", http.StatusOK, "}") })
	var submitted atomic.Int64
	every(1, func(int) {
		id := fmt.Sprint("churn-", submitted.Add(1))
		c.ask(g.Controllers, "team-b", "POST", "/requests", `{"id":"`+id+`","cost":1,"priority":1}`, http.StatusAccepted, "}")
		c.ask(g.Controllers, "team-b", "POST", "/requests/"+id+"/release", "", http.StatusAccepted, "}")
	})
	scenario.Eventually(t, "the first long streams", func() bool { return c.long.Load() > 0 }, func() any { return c.failed })
	streams := 0
	for range 2 {
		g.Gateways.Roll(t, func(open int) { streams += open })
		g.Controllers.Roll(t, func(int) {})
	}
	stop()
	all.Wait()
	t.Logf("%d requests and %d long streams; %d ran while their gateway was told to end", c.good.Load(), c.long.Load(), streams)
	if len(c.failed) > 0 {
		t.Errorf("%d of %d failed:\n%s", len(c.failed), int64(len(c.failed))+c.good.Load(), strings.Join(c.failed[:min(5, len(c.failed))], "\n"))
	}
	if streams == 0 {
		t.Error("no gateway had a request when it was told to end: this proved nothing")
	}
	for id, uid := range before {
		if after := replica(t, a, id); after != uid {
			t.Errorf("%s runs as %s, ran as %s", id, after, uid)
		}
	}
	for i := range submitted.Load() {
		scenario.As(t, g, "team-b").Released(fmt.Sprint("churn-", i+1))
	}
	if report := scenario.As(t, g, "admin").Must(200, "GET", "/ledger/verify", nil); !strings.Contains(string(report.Body), `"violations":[]`) {
		t.Errorf("the ledger: %s", report.Body)
	}
}

// replica names the process that serves, and how often it began anew.
func replica(t *testing.T, a scenario.Caller, id string) string {
	t.Helper()
	a.Ready(id)
	_, facts := a.Explain(id).Step(t, "started")
	return fmt.Sprintf("%v, process %v, restarts %v", facts["replicaUid"], facts["pid"], facts["restarts"])
}

var snapshotAge = regexp.MustCompile(`(?m)^modeldock_gateway_snapshot_age_seconds (\S+)$`)

// TestSharedKeyLife: a key opens every gateway soon after it was made and none
// five seconds after it was revoked; its expiry is judged by each gateway for
// itself, also with no controller there, when the snapshot's age says so.
func TestSharedKeyLife(t *testing.T) {
	t.Parallel()
	g := onemachine.NewGated(t, server(t), 2, 2)
	admin := scenario.As(t, g, "admin")
	mint := func(seconds int) (id, key string) {
		body := map[string]any{"role": "tenant", "tenant": "team-a"}
		if seconds > 0 {
			body["expiresInSeconds"] = seconds
		}
		made := admin.Must(201, "POST", "/keys", body).JSON(t)
		return made["id"].(string), made["key"].(string)
	}
	opens := func(url, key string) int {
		r, err := http.NewRequestWithContext(t.Context(), "GET", url+"/v1/models", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	everywhere := func(what, key string, want int) {
		t.Helper()
		for _, url := range g.Gateways.All() {
			var got int
			scenario.Eventually(t, what+" at "+url, func() bool { got = opens(url, key); return got == want }, func() any { return got })
		}
	}
	id, key := mint(0)
	everywhere("a new key", key, http.StatusOK)
	began := time.Now()
	admin.Must(204, "DELETE", "/keys/"+id, nil)
	everywhere("a revoked key", key, http.StatusUnauthorized)
	// How long it took is told, not asserted: machines that run tests stand still at times.
	t.Logf("revoked everywhere after %s; 5 s are promised", time.Since(began).Round(time.Millisecond))

	_, brief := mint(20)
	ends := time.Now().Add(20 * time.Second)
	everywhere("a brief key", brief, http.StatusOK)
	g.Controllers.Stop(t)
	everywhere("an expired key without any controller", brief, http.StatusUnauthorized)
	if time.Now().Before(ends.Add(-2 * time.Second)) {
		t.Error("the key ended before its time")
	}
	for _, ops := range g.Gateways.Ops() {
		var age float64
		scenario.Eventually(t, "an old snapshot at "+ops, func() bool {
			resp, err := http.Get(ops + "/metrics")
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			if m := snapshotAge.FindSubmatch(text); m != nil {
				age, _ = strconv.ParseFloat(string(m[1]), 64)
			}
			return age > 5
		}, func() any { return age })
	}
}
