package scenario

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"
)

// held keeps n streams of a model open until let go; their callers leave then.
func (c Caller) held(model string, n int) (letGo func()) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	began := make(chan struct{}, n)
	for range n {
		all.Go(func() {
			first := sync.OnceFunc(func() { began <- struct{}{} })
			if s := c.Chat(ctx, model, nil, func(int) { first() }); ctx.Err() == nil {
				c.t.Errorf("a stream of %s that was to be held ended: %+v", model, s)
				first()
			}
		})
	}
	for range n {
		<-began
	}
	return func() { cancel(); all.Wait() }
}

// looksAt reports whether a decision was made of a metric.
func (d ScalingDecision) looksAt(metric string) bool {
	for _, in := range d.Inputs {
		if in.Metric == metric {
			return true
		}
	}
	return false
}

// ClassesAndWorkloadsDiffer has the same load on models whose class or workload
// alone differs. Three streams of four that a replica takes: online keeps headroom
// and has a second replica, batch fills the one that it has. Four of four: the
// llm's cache is full and orders a second replica; the other classes do not look at
// it.
func ClassesAndWorkloadsDiffer(t *testing.T, h Harness) {
	a, admin := As(t, h, "team-a"), As(t, h, "admin")
	admin.Must(200, "PUT", "/tenants/team-a/quota", map[string]any{"cap": 8})
	models := map[string]struct {
		class, workload   string
		streams, replicas int
	}{
		"online":      {"llm", "online", 3, 2},
		"batch":       {"llm", "batch", 3, 1},
		"full-llm":    {"llm", "batch", 4, 2},
		"full-ranker": {"recommender", "batch", 4, 1},
		"full-vision": {"vision", "batch", 4, 1},
	}
	for name, m := range models {
		a.Submit(name, 1, map[string]any{"model": map[string]any{
			"class": m.class, "workload": m.workload, "gpuMemoryMiB": 512, "replicas": map[string]any{"min": 1, "max": 2},
			"args": []string{"--concurrency=4", "--tokens=100000", "--token-time=100ms", "--stop-time=1s"},
		}})
	}
	names := slices.Sorted(maps.Keys(models))
	for _, name := range names {
		a.Ready(name)
		defer a.held(name, models[name].streams)()
	}
	for _, name := range names {
		a.Runs(name, models[name].replicas)
	}
	since := time.Now()
	for _, name := range names { // and stay so, judged by what their class looks at
		m := models[name]
		s := a.UntilScaled(name, "a later decision", func(s Scaling) bool { return s.Latest != nil && s.Latest.At.After(since) })
		if s.Wanted != m.replicas || s.Latest.To != m.replicas {
			t.Errorf("%s of class %s for %s has %d replicas with %d streams, want %d: %+v", name, m.class, m.workload, s.Wanted, m.streams, m.replicas, s.Latest)
		}
		if looks := s.Latest.looksAt("kv_cache_utilization_percent"); looks != (m.class == "llm") {
			t.Errorf("%s of class %s looks at the cache of an llm: %v: %+v", name, m.class, looks, s.Latest)
		}
	}
}
