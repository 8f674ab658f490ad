package scenario

import (
	"encoding/json"
	"net/http"
	"testing"
)

// warmPool is the part of a warm pool's report that the stories look at.
type warmPool struct {
	Pool        string
	SpentToday  float64
	Activations struct{ Hot, Warm, Cold int }
	P99         *float64 `json:"p99ActivationSeconds"`
	Classes     []struct{ Hot struct{ Wanted, Kept int } }
}

// warmPoolOf reads the report of a pool.
func (c Caller) warmPoolOf(pool string) (w warmPool) {
	c.t.Helper()
	var list struct{ Items []warmPool }
	a := c.Do(http.MethodGet, "/warmpools", nil)
	if a.Status == http.StatusServiceUnavailable {
		return w // it has just started, and does not know yet what runs
	}
	if a.Status != http.StatusOK {
		c.t.Fatalf("read the warm pools: status %d: %s", a.Status, a.Body)
	}
	if err := json.Unmarshal(a.Body, &list); err != nil {
		c.t.Fatal(err)
	}
	for _, w := range list.Items {
		if w.Pool == pool {
			return w
		}
	}
	return w
}

// WarmPoolKeepsTheLatest has a pool that keeps one model hot on a budget: the
// one that was called last stays, the other sleeps until it is called, and what
// that cost is known after a crash.
func WarmPoolKeepsTheLatest(t *testing.T, h Harness) {
	a, admin := As(t, h, "team-a"), As(t, h, "admin")
	admin.Must(200, "PUT", "/warmpools/default", map[string]any{"gpuHoursPerDay": 24, "classes": []map[string]any{{"class": "llm", "hot": 1}}})
	a.Submit("one", 1, elasticModel(0, 1, "--load-time=100ms"))
	a.Submit("two", 1, elasticModel(0, 1, "--load-time=100ms"))
	a.Ready("one")
	a.Ready("two")
	a.MustChat("two")
	a.MustChat("one")
	kept := func(s Scaling) bool { return s.Wanted == 1 && s.Latest != nil && s.Latest.Reason == "KeptWarm" }
	asleep := func(s Scaling) bool { return s.Wanted == 0 && s.Did("Idle") }
	a.UntilScaled("one", "the pool's keeping", kept)
	a.UntilScaled("two", "sleep", asleep)
	Eventually(t, "the end of the replica of two, which may still serve", func() bool { return h.Engines(t, "team-a", "two") == 0 }, func() any { return a.Scaling("two") })
	a.MustChat("two") // it is woken, and was called last from now on
	a.UntilScaled("two", "the pool's keeping", kept)
	a.UntilScaled("one", "sleep", asleep)
	var w warmPool
	Eventually(t, "an account of half a minute", func() bool { w = admin.warmPoolOf("default"); return w.SpentToday > 20.0/3600 }, func() any { return w })
	if w.Activations.Warm+w.Activations.Cold == 0 || w.P99 == nil || *w.P99 <= 0 || len(w.Classes) != 1 || w.Classes[0].Hot.Kept != 1 {
		t.Errorf("one was woken, and one is kept: %+v", w)
	}
	h.Crash(t)
	h.Start(t)
	Eventually(t, "what was spent before", func() bool { w = admin.warmPoolOf("default"); return w.SpentToday > 5.0/3600 }, func() any { return w })
	a.UntilScaled("two", "the pool's keeping", kept)
	admin.Must(200, "PUT", "/warmpools/default", map[string]any{})
	a.UntilScaled("two", "sleep without a pool", asleep)
}
