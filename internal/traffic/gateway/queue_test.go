package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway"
	"modeldock.io/internal/traffic/route"
	"modeldock.io/internal/traffic/waitroom"
)

func keyOfEndpoint(e traffic.Endpoint) route.Key { return route.KeyOf(e) }

// demandFor is one that every replica but e suits.
func demandFor(t *testing.T, b *bench, e traffic.Endpoint) *route.Demand {
	t.Helper()
	d := &route.Demand{Tokens: 100_000}
	for {
		l, ok := b.table.Acquire(route.KeyOf(e), &route.Demand{})
		if !ok {
			t.Fatal("no endpoint")
		}
		if l.Endpoint().UID == e.UID {
			d.Avoid(l)
			l.Release()
			return d
		}
		defer l.Release()
	}
}

// counter sums a metric without regard to its labels.
func (b *bench) counter(name string) float64 {
	b.t.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// TestColdStartWithManyCallers: 500 wait for a model with two replicas that
// run eight requests each. The model is woken once, every caller is answered,
// and no replica ever gets more than it can run.
func TestColdStartWithManyCallers(t *testing.T) {
	t.Parallel()
	const callers, parallel = 500, 8
	var wakes atomic.Int64
	var woken atomic.Value
	b := setup(t, func(cfg *gateway.Config) {
		cfg.Wake = func(w traffic.Wake) { wakes.Add(1); woken.Store(w) }
	})
	b.publish(func(s *traffic.Snapshot) {
		s.Models[0].MaxWaiting, s.Models[0].Asleep = callers, true
	})
	var answers []<-chan result
	for range callers {
		answers = append(answers, b.later(keyA, helloChat))
	}
	eventually(t, "all to wait", func() bool { return b.waiting("m1") == callers })
	if got := b.chat(keyA, helloChat); got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") == "" ||
		got.header.Get("X-Modeldock-Dropped-Reason") != "queue-full" {
		t.Errorf("one more than may wait: %d %v", got.status, got.header)
	}
	if w, _ := woken.Load().(traffic.Wake); wakes.Load() != 1 || w.ObjectUID != "obj-m1-v1" || w.Since.IsZero() {
		t.Errorf("%d wakes, the last %+v", wakes.Load(), w)
	}
	served := map[string]*atomic.Int64{"p1": {}, "p2": {}}
	for uid, n := range served {
		var running atomic.Int64
		b.replica(uid, parallel, func(w http.ResponseWriter, _ *http.Request) {
			if now := running.Add(1); now > parallel {
				t.Errorf("%s runs %d at once", uid, now)
			}
			time.Sleep(time.Millisecond) // the engine's work
			running.Add(-1)
			n.Add(1)
			_, _ = io.WriteString(w, wholeChat)
		})
	}
	for _, a := range answers {
		if got := <-a; got.status != 200 {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	for uid, n := range served {
		if n.Load() < callers/5 {
			t.Errorf("%s served only %d of %d", uid, n.Load(), callers)
		}
	}
	b.allReturned()
}

// TestFullReplicasAreWaitedFor, and time out as what they are.
func TestFullReplicasAreWaitedFor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hold := make(chan struct{})
	b.replica("p1", 1, func(w http.ResponseWriter, _ *http.Request) {
		<-hold
		_, _ = io.WriteString(w, wholeChat)
	})
	first := b.later(keyA, helloChat)
	eventually(t, "the first to run", func() bool { return b.table.InFlight("p1") == 1 })
	got := b.chat(keyA, helloChat, "X-Modeldock-Wait", "0.02")
	if e := errorOf(t, got); got.status != 503 || e.Code != "no_capacity" || got.header.Get("Retry-After") == "" ||
		got.header.Get("X-Modeldock-Dropped-Reason") != "queue-timeout" {
		t.Errorf("%d %s", got.status, got.body)
	}
	second := b.later(keyA, helloChat)
	eventually(t, "the second to wait", func() bool { return b.waiting("m1") == 1 })
	close(hold)
	if a, c := <-first, <-second; a.status != 200 || c.status != 200 {
		t.Errorf("%d %d", a.status, c.status)
	}
	b.allReturned()
}

// TestPriority: the header lowers a caller's class and cannot raise it above
// the tenant's highest.
func TestPriority(t *testing.T) {
	t.Parallel()
	highest := map[string]waitroom.Class{"team-a": waitroom.Interactive}
	b := setup(t, func(cfg *gateway.Config) {
		cfg.MaxPriority = func(tenant string) waitroom.Class { return highest[tenant] }
	})
	b.publish(func(s *traffic.Snapshot) {
		s.Grants = map[traffic.GrantKey]struct{}{{Owner: "team-a", Model: "m1", Grantee: "team-b"}: {}}
	})
	if got := b.chat(keyA, helloChat, "X-Modeldock-Priority", "urgent"); got.status != 400 {
		t.Errorf("an unknown priority: %d", got.status)
	}
	var order []string
	var mu sync.Mutex
	var all sync.WaitGroup
	for i, c := range []struct{ name, key, priority string }{
		{"batch", keyA, "batch"}, {"b-default", keyB, "interactive"}, {"a-default", keyA, "default"}, {"urgent", keyA, ""},
	} {
		header := []string{"Openai-Test-Name", c.name}
		if c.priority != "" {
			header = append(header, "X-Modeldock-Priority", c.priority)
		}
		all.Go(func() {
			if got := b.chat(c.key, helloChat, header...); got.status != 200 {
				t.Errorf("%s: %d %s", c.name, got.status, got.body)
			}
		})
		eventually(t, c.name+" to wait", func() bool { return b.waiting("m1") == i+1 })
	}
	b.replica("p1", 1, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		order = append(order, r.Header.Get("Openai-Test-Name"))
		mu.Unlock()
		_, _ = io.WriteString(w, wholeChat)
	})
	all.Wait()
	if got := strings.Join(order, " "); got != "urgent b-default a-default batch" {
		t.Errorf("served %s", got)
	}
}

// TestProgressOfAWait: comments while waiting, then the untouched stream; and
// an error as an event.
func TestProgressOfAWait(t *testing.T) {
	t.Parallel()
	b := setup(t, func(cfg *gateway.Config) { cfg.ProgressEvery = 5 * time.Millisecond })
	ask := func(wait string) *bufio.Reader {
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/v1/chat/completions", strings.NewReader(helloStream))
		request.Header.Set("Authorization", "Bearer "+keyA)
		request.Header.Set("X-Modeldock-Progress", "1")
		request.Header.Set("X-Modeldock-Wait", wait)
		response, err := b.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" || response.Header.Get("X-Modeldock-Version") != "v1" {
			t.Fatalf("%d %v", response.StatusCode, response.Header)
		}
		return bufio.NewReader(response.Body)
	}
	body := ask("0.05")
	text, err := io.ReadAll(body)
	if s := string(text); err != nil || !strings.HasPrefix(s, ": modeldock position=1 seconds=10\n\n") ||
		!strings.Contains(s, `data: {"error":{"message":"the model \"m1@v1\" has no ready replica`) || strings.Contains(s, "[DONE]") {
		t.Errorf("%v %q", err, s)
	}
	body = ask("30")
	first, err := body.ReadString('\n')
	if err != nil || !strings.HasPrefix(first, ": modeldock position=1 ") {
		t.Fatalf("%v %q", err, first)
	}
	e := b.engine("team-a", "m1", "v1", events(roleEvent, chunkEvent("a"), stopEvent, doneEvent))
	text, err = io.ReadAll(body)
	rest := strings.TrimPrefix(string(text), "\n") // of the first comment
	for strings.HasPrefix(rest, ": modeldock ") {
		_, rest, _ = strings.Cut(rest, "\n\n")
	}
	if err != nil || rest != roleEvent+chunkEvent("a")+stopEvent+doneEvent {
		t.Errorf("%v %q", err, text)
	}
	// An engine's error after the status was sent.
	b.table.Remove(e.UID)
	body = ask("30")
	b.replica("p2", 0, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"message":"too long","type":"invalid_request_error","code":"context"}}`, http.StatusBadRequest)
	})
	text, err = io.ReadAll(body)
	if s := string(text); err != nil || !strings.Contains(s, `data: {"error":{"message":"too long"`) || strings.Contains(s, "[DONE]") {
		t.Errorf("%v %q", err, s)
	}
	b.allReturned()
}

// TestEstimateIsLearnt: after a model's first start, Retry-After of the next
// one is what it took.
func TestEstimateIsLearnt(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	b := setup(t, func(cfg *gateway.Config) { cfg.Clock = clock })
	b.gateway.SnapshotChanged() // it begins to load
	ahead.Add(int64(40 * time.Second))
	e := b.engine("team-a", "m1", "v1", events(doneEvent))
	b.table.Remove(e.UID) // it died, and is started again
	ahead.Add(int64(10 * time.Second))
	got := b.chat(keyA, helloChat, "X-Modeldock-Wait", "0")
	if after := got.header.Get("Retry-After"); got.status != 503 || after < "29" || after > "31" {
		t.Errorf("%d, Retry-After %s, 30 s of 40 are left", got.status, after)
	}
}

// TestDrainEndsWaits: who waits is told at once, what runs goes on.
func TestDrainEndsWaits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hold := make(chan struct{})
	b.replica("p1", 1, func(w http.ResponseWriter, _ *http.Request) {
		<-hold
		_, _ = io.WriteString(w, wholeChat)
	})
	running := b.later(keyA, helloChat)
	eventually(t, "it to run", func() bool { return b.table.InFlight("p1") == 1 })
	waiting := b.later(keyA, helloChat)
	eventually(t, "one to wait", func() bool { return b.waiting("m1") == 1 })
	b.gateway.Drain()
	got := <-waiting
	if e := errorOf(t, got); got.status != 503 || e.Code != "shutting_down" || got.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", got.status, got.body)
	}
	close(hold)
	if got := <-running; got.status != 200 {
		t.Errorf("what ran got %d", got.status)
	}
}

// TestAccelerator: only replicas on such cards, who waits for one holds up
// nobody, and nobody waits for one that is not there.
func TestAccelerator(t *testing.T) {
	t.Parallel()
	b := setup(t)
	answer := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, wholeChat) }
	a100 := b.replica("p1", 1, answer)
	a100.CardModel = "NVIDIA A100-SXM4-80GB"
	b.table.Upsert(a100)
	none := b.chat(keyA, helloChat, "X-Modeldock-Accelerator", "H200")
	if e := errorOf(t, none); none.status != 400 || e.Code != "accelerator_unavailable" ||
		!strings.Contains(e.Message, "x-modeldock-accelerator") || !strings.Contains(e.Message, a100.CardModel) {
		t.Errorf("%d %s", none.status, none.body)
	}
	hold := make(chan struct{})
	h200 := b.replica("p2", 1, func(w http.ResponseWriter, r *http.Request) {
		<-hold
		answer(w, r)
	})
	h200.CardModel = "NVIDIA H200"
	b.table.Upsert(h200)
	first := b.later(keyA, helloChat, "X-Modeldock-Accelerator", "H200")
	eventually(t, "the first to run", func() bool { return b.table.InFlight("p2") == 1 })
	wants := b.later(keyA, helloChat, "X-Modeldock-Accelerator", "H200")
	eventually(t, "it to wait", func() bool { return b.waiting("m1") == 1 })
	for range 5 {
		if got := b.chat(keyA, helloChat); got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
	close(hold)
	<-first
	got := <-wants
	if r := b.record(got.header.Get("X-Request-Id")); got.status != 200 || r.EndpointUID != "p2" {
		t.Errorf("%d, served by %s", got.status, r.EndpointUID)
	}
	if got := b.chat(keyA, helloChat, "X-Modeldock-Accelerator", strings.Repeat("x", 65)); got.status != 400 {
		t.Errorf("%d", got.status)
	}
}

// TestSessionsAndPrefixesStay: requests of one session, or with one long
// prompt, go to one replica while it is not busier than the others.
func TestSessionsAndPrefixesStay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 4 {
		b.replica(fmt.Sprint("p", i), 0, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, wholeChat) })
	}
	long := fmt.Sprintf(`{"model":"m1","messages":[{"role":"system","content":%q},{"role":"user","content":"hi"}]}`, strings.Repeat("rule ", 400))
	used := map[string]bool{}
	for i := range 12 {
		session := fmt.Sprint("s", i)
		by := map[string]bool{}
		for range 4 {
			got := b.chat(keyA, helloChat, "X-Session-Id", session)
			by[b.record(got.header.Get("X-Request-Id")).EndpointUID] = true
		}
		if len(by) != 1 {
			t.Errorf("session %s was served by %v", session, by)
		}
		for uid := range by {
			used[uid] = true
		}
	}
	if len(used) < 2 {
		t.Errorf("all sessions went to %v", used)
	}
	by := map[string]bool{}
	for range 8 {
		by[b.record(b.chat(keyA, long).header.Get("X-Request-Id")).EndpointUID] = true
	}
	if len(by) != 1 {
		t.Errorf("one prompt was served by %v", by)
	}
}
