package elastic_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"modeldock.io/internal/elastic"
	"modeldock.io/internal/modelspec"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a moment

// online is a model of one bundle with n ready replicas and a demand.
func online(n int, demand float64) (elastic.Spec, elastic.Signals) {
	s := elastic.For(modelspec.ClassLLM, modelspec.WorkloadOnline, 10)
	s.Metrics, s.Min = s.Metrics[:1], 0
	in := elastic.Signals{Replicas: n, InFlight: int(demand), ReadySince: noon.Add(-time.Hour), LastRequest: noon}
	for range n {
		in.Pods = append(in.Pods, elastic.Pod{State: elastic.PodReady})
	}
	if !math.IsNaN(demand) {
		in.Values = map[string]elastic.Reading{elastic.MetricDemand: {Total: &demand}}
	}
	return s, in
}

func expect(t *testing.T, what string, d elastic.Decision, replicas int, reason string) {
	t.Helper()
	if d.Replicas != replicas || d.Reason != reason || d.Message == "" {
		t.Errorf("%s: %d → %d, %s (%s), want %d, %s", what, d.From, d.Replicas, d.Reason, d.Message, replicas, reason)
	}
}

func TestZero(t *testing.T) {
	t.Parallel()
	spec, in := online(0, 0)
	old := elastic.History{Since: noon.Add(-time.Hour)}
	expect(t, "nobody asks", elastic.Decide(spec, in, old, elastic.Budget{}, noon), 0, elastic.ReasonAsleep)
	in.Waiting, in.Values = 1, nil
	expect(t, "the first request, all metrics away", elastic.Decide(spec, in, elastic.History{}, elastic.Budget{}, noon), 1, elastic.ReasonActivated)

	spec, in = online(1, 0)
	in.LastRequest = noon.Add(-spec.Idle)
	expect(t, "idle", elastic.Decide(spec, in, old, elastic.Budget{}, noon), 0, elastic.ReasonIdle)
	in.LastRequest = time.Time{}
	expect(t, "never asked", elastic.Decide(spec, in, old, elastic.Budget{}, noon), 0, elastic.ReasonIdle)
	in.InFlight = 1
	if d := elastic.Decide(spec, in, old, elastic.Budget{}, noon); d.Replicas != 1 {
		t.Errorf("a long stream was cut: %+v", d)
	}
	in.InFlight, in.ReadySince, in.Pods[0].State = 0, time.Time{}, elastic.PodPending
	if d := elastic.Decide(spec, in, old, elastic.Budget{}, noon); d.Replicas != 1 {
		t.Errorf("a replica that loads went to sleep: %+v", d)
	}
	_, in = online(1, 0)
	in.LastRequest = noon.Add(-time.Hour)
	if d := elastic.Decide(spec, in, elastic.History{}, elastic.Budget{}, noon); d.Replicas != 1 {
		t.Errorf("slept at once after a restart: %+v", d)
	}
}

// TestMissing: an unknown metric never shrinks, and is named; no traffic does.
func TestMissing(t *testing.T) {
	t.Parallel()
	old := elastic.History{Since: noon.Add(-time.Hour), Proposals: []elastic.Proposal{{At: noon.Add(-time.Hour), Replicas: 3}}}
	spec, in := online(3, math.NaN())
	in.InFlight = 1
	d := elastic.Decide(spec, in, old, elastic.Budget{}, noon)
	expect(t, "away", d, 3, elastic.ReasonMissing)
	if !slices.Equal(d.Missing, []string{elastic.MetricOffered}) || d.Inputs[0].Value != nil {
		t.Errorf("missing %v, inputs %+v", d.Missing, d.Inputs)
	}
	spec, in = online(3, 0)
	if d := elastic.Decide(spec, in, old, elastic.Budget{}, noon); d.Replicas >= 3 {
		t.Errorf("no traffic is a value: %+v", d)
	}
	// One of two unknown: may grow, must not shrink.
	spec.Metrics = append(spec.Metrics, elastic.Metric{Name: elastic.MetricKVCache, Kind: elastic.PodsAverage, Target: 80})
	expect(t, "one of two", elastic.Decide(spec, in, old, elastic.Budget{}, noon), 3, elastic.ReasonMissing)
	spec2, in := online(3, 30)
	spec2.Metrics = spec.Metrics
	if d := elastic.Decide(spec2, in, old, elastic.Budget{}, noon); d.Replicas != 6 {
		t.Errorf("growth by what is known: %+v", d)
	}
}

func TestBudget(t *testing.T) {
	t.Parallel()
	spec, in := online(2, 40)
	b := elastic.Budget{Bounded: true, Funded: 2, Free: 1, Why: "cap 12, used 11, cost 1"}
	d := elastic.Decide(spec, in, elastic.History{}, b, noon)
	expect(t, "one more is affordable", d, 3, elastic.ReasonBudget)
	if !slices.Contains(d.LimitedBy, elastic.ReasonBudget) {
		t.Errorf("limited by %v", d.LimitedBy)
	}
	b.Free = 0
	expect(t, "none", elastic.Decide(spec, in, d.Next, b, noon), 2, elastic.ReasonBudget)
	b.Funded = 1
	expect(t, "what runs is the ledger's to end", elastic.Decide(spec, in, d.Next, b, noon), 2, elastic.ReasonBudget)
	b.Free = 10
	if d := elastic.Decide(spec, in, d.Next, b, noon); d.Replicas <= 2 || d.Reason == elastic.ReasonBudget {
		t.Errorf("free slots are used by themselves: %+v", d)
	}
}

// TestNoCascade: replicas that load count as capacity that is under way, and
// one that is pending may be given up.
func TestNoCascade(t *testing.T) {
	t.Parallel()
	spec, in := online(1, 20)
	spec.Min = 1
	var h elastic.History
	for i := range 40 {
		now := noon.Add(time.Duration(i) * 15 * time.Second)
		d := elastic.Decide(spec, in, h, elastic.Budget{}, now)
		if d.Replicas > 4 {
			t.Fatalf("round %d: %+v", i, d)
		}
		for len(in.Pods) < d.Replicas {
			in.Pods = append(in.Pods, elastic.Pod{State: elastic.PodPending})
		}
		h, in.Replicas = d.Next, d.Replicas
	}
	if in.Replicas != 4 {
		t.Errorf("%d replicas for 20 requests at 5 each", in.Replicas)
	}
	none := 0.0
	in.Values[elastic.MetricDemand], in.InFlight = elastic.Reading{Total: &none}, 0
	if d := elastic.Decide(spec, in, h, elastic.Budget{}, noon.Add(time.Hour)); d.Replicas >= 4 {
		t.Errorf("pending replicas stayed: %+v", d)
	}
}

func TestBurst(t *testing.T) {
	t.Parallel()
	spec, in := online(2, 60)
	spec.Behavior.Up.Window, spec.Burst = 30*time.Second, 2
	d := elastic.Decide(spec, in, elastic.History{}, elastic.Budget{}, noon)
	if d.Replicas <= 2 || !slices.Contains(d.LimitedBy, elastic.ReasonBurst) {
		t.Errorf("the window delayed a burst: %+v", d)
	}
	spec.Burst = 0
	expect(t, "without", elastic.Decide(spec, in, elastic.History{}, elastic.Budget{}, noon), 2, elastic.ReasonUpWindow)
}

func TestBundles(t *testing.T) {
	t.Parallel()
	seen := map[float64]bool{}
	for _, c := range []modelspec.Class{modelspec.ClassLLM, modelspec.ClassVision, modelspec.ClassRecommender} {
		for _, w := range []modelspec.Workload{modelspec.WorkloadOnline, modelspec.WorkloadBatch} {
			s := elastic.For(c, w, 0)
			seen[s.Metrics[0].Target] = true
			if warned := elastic.Warning(c, s) != ""; warned {
				t.Errorf("%s %s warns of itself", c, w)
			}
		}
	}
	if len(seen) != 6 || elastic.Warning(modelspec.ClassLLM, elastic.Reference()) == "" {
		t.Errorf("the bundles' targets: %v", seen)
	}
	if v := elastic.MemoryAboveIdle(60, 40, 80); v != 50 {
		t.Errorf("%v %% above idle", v)
	}
}

func TestYield(t *testing.T) {
	t.Parallel()
	old := noon.Add(-time.Hour)
	all := []elastic.Tenant{
		{Name: "busy", Replicas: 1, InFlight: 1, ReadyAt: old, MiB: 100},
		{Name: "young", Replicas: 1, ReadyAt: noon.Add(-time.Second), MiB: 100},
		{Name: "loaded long", Replicas: 1, ReadyAt: noon.Add(-2 * time.Minute), Loading: time.Minute, MiB: 100},
		{Name: "loading", Replicas: 1, MiB: 100},
		{Name: "higher", Replicas: 1, Priority: 9, ReadyAt: old, MiB: 100},
		{Name: "warm", Replicas: 1, Warm: 1, ReadyAt: old, MiB: 100},
		{Name: "recent", Replicas: 1, ReadyAt: old, LastUsed: noon.Add(-time.Minute), MiB: 10},
		{Name: "idle", Replicas: 1, ReadyAt: old, LastUsed: noon.Add(-time.Hour), MiB: 10},
		{Name: "batch", Replicas: 2, Batch: true, ReadyAt: old, LastUsed: noon, MiB: 10},
	}
	for need, want := range map[int64][]string{5: {"batch"}, 25: {"batch", "batch", "idle"}, 40: {"batch", "batch", "idle", "recent"}, 41: nil} {
		if got := elastic.Yield(all, need, 5, elastic.MinResidence, noon); !slices.Equal(got, want) {
			t.Errorf("%d MiB: %v, want %v", need, got, want)
		}
	}
}
