package scenario

import (
	"context"
	"net/http"
	"strings"
	"testing"
)

// slow is a simulated engine whose answers last: 200 tokens, 50 ms each.
func slow() map[string]any {
	return map[string]any{"model": map[string]any{"args": []string{"--tokens=200", "--token-time=50ms"}}}
}

// StreamedOwnedCancelled is story 5: a stream reaches [DONE] and leaves
// first-chunk evidence; another tenant is refused as if the model did not
// exist until it is granted; a caller who leaves frees the engine.
func StreamedOwnedCancelled(t *testing.T, h Harness) {
	a, b := As(t, h, "team-a"), As(t, h, "team-b")
	a.Submit("talk", 1, nil)
	a.Ready("talk")
	s := a.MustChat("talk")
	Eventually(t, "first-chunk evidence", func() bool {
		e := a.Explain("talk")
		return e.Answers.FirstChunkDelivered != nil && *e.Answers.FirstChunkDelivered
	}, func() any { return a.Explain("talk") })
	if _, facts := a.Explain("talk").Step(t, "firstChunk"); facts["requestId"] != s.RequestID {
		t.Errorf("first chunk is proved by request %v, want %s", facts["requestId"], s.RequestID)
	}
	unknown, foreign := b.Chat(context.Background(), "nothing", nil, nil), b.Chat(context.Background(), "team-a/talk", nil, nil)
	if unknown.Status != 404 || foreign.Status != 404 || unknown.Code != "model_not_found" || foreign.Code != "model_not_found" {
		t.Errorf("unknown model: %+v; another tenant's: %+v; want the same 404 model_not_found", unknown, foreign)
	}
	a.Must(200, "PUT", "/grants/team-a/talk/team-b", nil)
	Eventually(t, "the grant to reach the gateway", func() bool {
		return b.Chat(context.Background(), "talk", nil, nil).Done
	}, func() any { return "no answer for team-b" })
	a.Must(204, "DELETE", "/grants/team-a/talk/team-b", nil)
	Eventually(t, "the grant to be gone", func() bool {
		return b.Chat(context.Background(), "talk", nil, nil).Status == 404
	}, func() any { return "team-b is still answered" })
	callerLeaves(t, h)
}

// callerLeaves is C099 end to end: the engine itself says that it stopped.
func callerLeaves(t *testing.T, h Harness) {
	a := As(t, h, "team-a")
	a.Submit("slow", 1, slow())
	a.Ready("slow")
	address := a.Endpoint("slow")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var id string
	s := a.Chat(ctx, "slow", nil, func(n int) {
		if n == 3 {
			cancel()
		}
	})
	id = s.RequestID
	if s.Done {
		t.Fatalf("the stream ended before the caller left: %+v", s)
	}
	Eventually(t, "the engine to have no running request", func() bool {
		return engineMetric(t, address, "vllm:num_requests_running") == 0
	}, func() any { return engineMetric(t, address, "vllm:num_requests_running") })
	Eventually(t, "the trace of the cancelled request", func() bool {
		ans := a.Do("GET", "/traces/"+id, nil)
		return ans.Status == 200 && ans.JSON(t)["outcome"] == "client_cancelled"
	}, func() any { return string(a.Do("GET", "/traces/"+id, nil).Body) })
}

// Endpoint returns the address of a model's first replica, once a gateway knows
// one: that a replica is ready, and that it is routable, are two observations.
func (c Caller) Endpoint(model string) string {
	c.t.Helper()
	return c.Endpoints(model, 1)[0]
}

// Endpoints returns the addresses of a model's replicas, once a gateway knows
// at least n.
func (c Caller) Endpoints(model string, n int) (addresses []string) {
	c.t.Helper()
	var m map[string]any
	Eventually(c.t, "endpoints of "+c.who+"/"+model, func() bool {
		m = c.Must(http.StatusOK, "GET", "/models/"+c.who+"/"+model, nil).JSON(c.t)
		addresses = addressesOf(m)
		return len(addresses) >= n
	}, func() any { return m })
	return addresses
}

func addressesOf(model map[string]any) (all []string) {
	versions, _ := model["versions"].([]any)
	for _, v := range versions {
		version, _ := v.(map[string]any)
		endpoints, _ := version["endpoints"].([]any)
		for _, e := range endpoints {
			endpoint, _ := e.(map[string]any)
			if address, _ := endpoint["address"].(string); address != "" {
				all = append(all, address)
			}
		}
	}
	return all
}

// FirstCallWaits is the first half of C074 and C123: a caller of a model that
// still loads waits and is answered, and a model that cannot load fails its
// callers with the reason.
func FirstCallWaits(t *testing.T, h Harness) {
	a := As(t, h, "team-a")
	a.Submit("loading", 1, map[string]any{"model": map[string]any{"args": []string{"--load-time=2s"}}})
	if s := a.Chat(context.Background(), "loading", nil, nil); s.Status != 200 || !s.Done {
		t.Errorf("the first call of a loading model: %+v", s)
	}
	a.Submit("hopeless", 1, map[string]any{"model": map[string]any{"args": []string{"--fail-load=weights are corrupt"}}})
	a.Until("hopeless", "ModelLoadFailed", func(r Record) bool { return r.Reason == "ModelLoadFailed" || r.Reason == "CrashLooping" })
	s := a.Chat(context.Background(), "hopeless", nil, nil)
	if s.Status != http.StatusServiceUnavailable {
		t.Errorf("a call of a model that cannot load: %+v, want 503", s)
	}
	e := a.Explain("hopeless")
	if e.BrokenAt == nil || *e.BrokenAt != "started" || e.Answers.ModelStarted == nil || *e.Answers.ModelStarted {
		t.Errorf("explain of a model that cannot load: %+v", e)
	}
	a.Release("hopeless")
	a.Released("hopeless")
	if e := a.Explain("hopeless"); e.Reason != "ModelLoadFailed" || !strings.Contains(e.Message, "weights are corrupt") {
		t.Errorf("after the release the evidence lost why it failed: %+v", e)
	}
}

// NoCardFits shows that budget and delivery are different accounts: the slots
// are held, no card has the memory, and both say so with figures.
func NoCardFits(t *testing.T, h Harness) {
	a := As(t, h, "team-a")
	a.Submit("huge", 1, map[string]any{"model": map[string]any{"gpuMemoryMiB": 30000}})
	r := a.Until("huge", "NoFragmentFits", func(r Record) bool { return r.Reason == "NoFragmentFits" })
	if r.State != "reserved" || r.Held != 1 || r.Message == "" {
		t.Errorf("huge: %+v", r)
	}
	if e := a.Explain("huge"); e.BrokenAt == nil || *e.BrokenAt != "placed" || e.Answers.BudgetSpentOnce == nil || !*e.Answers.BudgetSpentOnce {
		t.Errorf("explain: %+v", e)
	}
	a.Release("huge")
	a.Released("huge")
	VerifyClean(t, h)
}
