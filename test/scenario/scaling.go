package scenario

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Scaling is the part of a scaling report that the stories look at.
type Scaling struct {
	Actuator                       string
	Paused                         bool
	Wanted, Running, Funded, Ready int
	Asleep                         int
	Note                           string
	Latest                         *ScalingDecision
	Items                          []ScalingDecision
}

// ScalingDecision is one of its decisions.
type ScalingDecision struct {
	At                 time.Time
	From, To           int
	Reason, Message    string
	LimitedBy, Missing []string
	Inputs             []struct {
		Metric   string
		Value    *float64
		Proposal int
	}
}

// Scaling reads why one's own model has the number of replicas that it has.
func (c Caller) Scaling(id string) Scaling {
	c.t.Helper()
	var s Scaling
	a := c.Must(http.StatusOK, http.MethodGet, "/requests/"+id+"/scaling", nil)
	if err := json.Unmarshal(a.Body, &s); err != nil {
		c.t.Fatal(err)
	}
	return s
}

// Did reports whether a change of the count had the reason.
func (s Scaling) Did(reason string) bool {
	return slices.ContainsFunc(s.Items, func(d ScalingDecision) bool { return d.Reason == reason })
}

// UntilScaled waits until ok says so of the report.
func (c Caller) UntilScaled(id, what string, ok func(Scaling) bool) Scaling {
	c.t.Helper()
	var s Scaling
	Eventually(c.t, what+" of "+c.who+"/"+id, func() bool { s = c.Scaling(id); return ok(s) }, func() any { return s })
	return s
}

// elasticModel is a model between two counts that shrinks within seconds.
func elasticModel(least, most int, args ...string) map[string]any {
	return map[string]any{"model": map[string]any{
		"replicas": map[string]any{"min": least, "max": most}, "gpuMemoryMiB": 512, "args": args,
		"scaling": map[string]any{"idleSeconds": 4, "behavior": map[string]any{"scaleDown": map[string]any{
			"stabilizationWindowSeconds": 3, "policies": []map[string]any{{"type": "Pods", "value": 10, "periodSeconds": 1}},
		}}},
	}}
}

// callers keep a model busy until stopped: each begins a new stream when the
// last one ended. Every stream must end whole, whatever is scaled meanwhile.
func (c Caller) callers(model string, n int) (stop func()) {
	var all sync.WaitGroup
	over := make(chan struct{})
	for range n {
		all.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if s := c.Chat(context.Background(), model, nil, nil); s.Status != 200 || !s.Done || s.Err != "" {
					c.t.Errorf("a stream while the model was scaled: %+v", s)
					return
				}
			}
		})
	}
	return func() { close(over); all.Wait() }
}

// ScalesWithTheLoad has replicas follow the load, each is paid for before it
// starts; what the budget refuses is told with figures and comes by itself
// when slots are free; no stream is cut on the way down, and all is given back.
func ScalesWithTheLoad(t *testing.T, h Harness) {
	a, admin := As(t, h, "team-a"), As(t, h, "admin")
	a.Submit("busy", 1, elasticModel(1, 3, "--concurrency=2", "--tokens=40", "--token-time=20ms"))
	a.Ready("busy")
	stop := a.callers("busy", 6) // at one per replica: more than there may be
	a.Runs("busy", 2)
	s := a.UntilScaled("busy", "the refusal", func(s Scaling) bool { return s.Latest != nil && s.Latest.Reason == "BudgetBlocked" })
	if !strings.Contains(s.Latest.Message, "team-a holds 2 of 2") || s.Wanted != 2 || s.Funded != 2 || len(s.Latest.Inputs) == 0 || s.Latest.Inputs[0].Value == nil {
		t.Errorf("what blocks the third replica: %+v", s)
	}
	admin.Must(200, "PUT", "/tenants/team-a/quota", map[string]any{"cap": 3})
	a.Runs("busy", 3)
	if u := Quota(t, h, "team-a"); u.Used != 3 {
		t.Errorf("three replicas run and %d slots are used", u.Used)
	}
	stop()
	h.Crash(t) // in the middle: nothing is lost, and nothing is paid twice
	h.Start(t)
	stop = a.callers("busy", 6)
	a.Runs("busy", 3)
	stop()
	a.Runs("busy", 1)
	s = a.Scaling("busy")
	if s.Wanted != 1 || len(s.Items) < 3 {
		t.Errorf("after all: %+v", s)
	}
	for i, d := range s.Items[1:] { // newest first
		if d.To != s.Items[i].From || d.Reason == "" || d.Message == "" {
			t.Errorf("a step of the history: %+v, and then %+v", d, s.Items[i])
		}
	}
	sum := int64(0)
	for _, j := range a.Journal("busy") {
		var n int64
		if _, text, _ := strings.Cut(j, " "); json.Unmarshal([]byte(text), &n) != nil {
			t.Fatalf("journal entry %q", j)
		}
		sum += n
	}
	if sum != 1 {
		t.Errorf("the journal sums to %d: %v", sum, a.Journal("busy"))
	}
	VerifyClean(t, h)
}

// SleepsAndWakes says that a model that nobody calls sleeps, keeps its slot and its
// proofs, also over a crash; the first call wakes it and is answered, and many
// callers wake it once.
func SleepsAndWakes(t *testing.T, h Harness) {
	a := As(t, h, "team-a")
	a.Submit("sleepy", 1, elasticModel(0, 1, "--load-time=1s", "--tokens=8"))
	a.Ready("sleepy")
	asleep := func() {
		a.Until("sleepy", "sleep", func(r Record) bool { return r.Reason == "ScaledToZero" && r.ReadyReplicas == 0 })
		Eventually(t, "its last process to end", func() bool { return h.Engines(t, "team-a", "sleepy") == 0 }, func() any { return a.Scaling("sleepy") })
	}
	asleep() // it was never called
	if r := a.Get("sleepy"); r.Held != 1 || r.FundedReplicas != 1 || !r.EverReady {
		t.Errorf("asleep: %+v", r)
	}
	if e := a.Explain("sleepy"); e.BrokenAt != nil || e.Answers.ModelStarted == nil || !*e.Answers.ModelStarted {
		t.Errorf("asleep, explain says %+v", e)
	}
	h.Crash(t)
	h.Start(t)
	if n := h.Engines(t, "team-a", "sleepy"); n != 0 || a.Get("sleepy").Reason != "ScaledToZero" {
		t.Errorf("after a crash %d engines run, and it is %+v", n, a.Get("sleepy"))
	}
	for range 2 {
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if s := a.Chat(context.Background(), "sleepy", nil, nil); s.Status != 200 || !s.Done || s.Chunks != 8 {
					t.Errorf("a caller of a model that slept: %+v", s)
				}
			})
		}
		all.Wait()
		if n := h.Engines(t, "team-a", "sleepy"); n != 1 {
			t.Errorf("ten callers woke %d engines", n)
		}
		asleep()
	}
	s := a.Scaling("sleepy")
	woken := 0
	for _, d := range s.Items {
		if d.Reason == "Activated" {
			woken++
		}
	}
	if woken != 2 || !s.Did("Idle") || s.Wanted != 0 || s.Funded != 1 {
		t.Errorf("woken %d times, want 2: %+v", woken, s)
	}
	if j := strings.Join(a.Journal("sleepy"), ", "); j != "reserve 1" {
		t.Errorf("journal: %s", j)
	}
	if e := a.Explain("sleepy"); e.BrokenAt != nil || e.Answers.FirstChunkDelivered == nil || !*e.Answers.FirstChunkDelivered {
		t.Errorf("in the end explain says %+v", e)
	}
	VerifyClean(t, h)
}

// MissingMetricsShrinkNothing (C128): an engine whose metrics went away is not
// an engine without work. The count stays, the report names the signal, and
// all is normal when it is back.
func MissingMetricsShrinkNothing(t *testing.T, h Harness) {
	a := As(t, h, "team-a")
	a.Submit("mute", 1, elasticModel(1, 2, "--concurrency=2", "--tokens=20", "--token-time=20ms"))
	a.Ready("mute")
	stop := a.callers("mute", 4)
	a.Runs("mute", 2)
	addresses := a.Endpoints("mute", 2)
	for _, address := range addresses {
		silence(t, address, "false")
	}
	a.UntilScaled("mute", "the missing signal", func(s Scaling) bool {
		return s.Latest != nil && slices.Contains(s.Latest.Missing, "kv_cache_utilization_percent")
	})
	stop()
	s := a.UntilScaled("mute", "the count that is held", func(s Scaling) bool { return s.Latest != nil && s.Latest.Reason == "MetricMissing" })
	before, since := len(s.Items), s.Latest.At
	// Long after a quiet model would have shrunk, decisions still hold it.
	a.UntilScaled("mute", "later decisions", func(s Scaling) bool {
		if s.Wanted != 2 || len(s.Items) != before {
			t.Fatalf("it shrank without knowing: %+v", s)
		}
		return s.Latest != nil && s.Latest.At.Sub(since) > 8*time.Second
	})
	for _, address := range addresses {
		silence(t, address, "true")
	}
	a.Runs("mute", 1)
}

// silence ends or takes up an engine's metrics.
func silence(t testing.TB, address, answer string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPut, "http://"+address+"/simulated/metrics?answer="+answer, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatalf("silence the engine's metrics: %v", err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		t.Fatalf("silence the engine's metrics: status %d", resp.StatusCode)
	}
}

// TwoShareOneCard says that two models that fit a card only one at a time are both
// served: who is called gets the card of who is idle, both say so, both keep
// their slots, and neither loses it again at once. The platform has one card
// of 10 000 MiB and a residence of some seconds.
func TwoShareOneCard(t *testing.T, h Harness) {
	a := As(t, h, "team-a")
	big := map[string]any{"model": map[string]any{
		"gpuMemoryMiB": 8000, "replicas": map[string]any{"min": 0, "max": 1}, "args": []string{"--load-time=200ms", "--tokens=8", "--token-time=10ms"},
		"scaling": map[string]any{"idleSeconds": 600},
	}}
	a.Submit("left", 1, big)
	a.Ready("left")
	a.Submit("right", 1, big)
	a.Until("right", "NoCardFits", func(r Record) bool { return r.Reason == "NoFragmentFits" })

	var all sync.WaitGroup
	for _, model := range []string{"left", "right"} { // called in turn by two who know nothing of each other
		all.Go(func() {
			for range 3 {
				if s := a.Chat(context.Background(), model, nil, nil); s.Status != 200 || !s.Done || s.Chunks != 8 {
					t.Errorf("a call of %s: %+v", model, s)
				}
			}
		})
	}
	all.Wait()
	left, right := a.Scaling("left"), a.Scaling("right")
	if !right.Did("MadeRoom") || !left.Did("Yielded") {
		t.Errorf("who got the card: %+v\nwho gave it: %+v", right, left)
	}
	for _, s := range []Scaling{left, right} {
		given := 0
		for _, d := range s.Items {
			if d.Reason == "Yielded" {
				given++
			}
			if d.Reason == "Yielded" && !strings.Contains(d.Message, "made room for team-a/") || d.Message == "" {
				t.Errorf("a step that says nothing: %+v", d)
			}
		}
		if given > 4 { // three calls each: the card changes hands once per turn at most
			t.Errorf("it gave its card %d times for three calls of the other: %+v", given, s)
		}
		if s.Funded != 1 {
			t.Errorf("making room cost it its slot: %+v", s)
		}
	}
	if n := h.Engines(t, "team-a", "left") + h.Engines(t, "team-a", "right"); n > 1 {
		t.Errorf("%d processes on a card for one", n)
	}
	if u := Quota(t, h, "team-a"); u.Used != 2 {
		t.Errorf("%d slots are used, want 2", u.Used)
	}
	VerifyClean(t, h)
}
