package elastic_test

import (
	"slices"
	"testing"
	"time"

	"modeldock.io/internal/elastic"
	"modeldock.io/internal/modelspec"
)

// TestSpecOf: what the owner writes takes the bundle's place, and nothing else does.
func TestSpecOf(t *testing.T) {
	t.Parallel()
	m := modelspec.Default("x")
	m.Replicas = modelspec.Replicas{Min: 0, Max: 5}
	bundle := elastic.SpecOf(m, 4, 0)
	if bundle.Min != 0 || bundle.Max != 5 || bundle.Idle != 15*time.Minute || target(bundle, elastic.MetricOffered) != 2 || target(bundle, elastic.MetricKVCache) != 80 {
		t.Errorf("the bundle's: %+v", bundle)
	}
	window := 7
	m.Scaling = &modelspec.Scaling{
		IdleSeconds: 9, Targets: modelspec.ScalingTargets{QueueDepth: 3, KVCachePercent: 60, LatencyP99Milliseconds: 700},
		Behavior: &modelspec.ScalingBehavior{ScaleDown: &modelspec.ScalingRules{
			StabilizationWindowSeconds: &window, SelectPolicy: modelspec.SelectMin,
			Policies: []modelspec.ScalingPolicy{{Type: modelspec.PolicyPercent, Value: 20, PeriodSeconds: 30}},
		}},
	}
	s := elastic.SpecOf(m, 4, 0)
	if target(s, elastic.MetricQueue) != 3 || target(s, elastic.MetricRunning) != 4 || target(s, elastic.MetricOffered) != 0 ||
		target(s, elastic.MetricKVCache) != 60 || target(s, elastic.MetricLatency) != 700 || s.Idle != 9*time.Second {
		t.Errorf("the owner's targets: %+v", s)
	}
	want := elastic.Rules{Window: 7 * time.Second, Select: elastic.SelectMin, Policies: []elastic.Policy{{Percent: true, Value: 20, Period: 30 * time.Second}}, Tolerance: bundle.Behavior.Down.Tolerance}
	if got := s.Behavior.Down; got.Window != want.Window || got.Select != want.Select || !slices.Equal(got.Policies, want.Policies) || got.Tolerance != want.Tolerance {
		t.Errorf("the owner's rules: %+v, want %+v", got, want)
	}
	if up := s.Behavior.Up; !slices.Equal(up.Policies, bundle.Behavior.Up.Policies) || up.Window != bundle.Behavior.Up.Window {
		t.Errorf("the other direction is not the bundle's: %+v", up)
	}
}

// TestSpecOfAStartedModel: what was measured of its start fits the bundle; what
// the owner wrote stays.
func TestSpecOfAStartedModel(t *testing.T) {
	t.Parallel()
	m := modelspec.Default("x")
	m.Replicas = modelspec.Replicas{Min: 0, Max: 5}
	slow, fast := elastic.SpecOf(m, 4, time.Minute), elastic.SpecOf(m, 4, 5*time.Second)
	if slow.Smooth == 0 || fast.Smooth != 0 || fast.Behavior.Down.Window >= slow.Behavior.Down.Window {
		t.Errorf("slow %+v, fast %+v", slow, fast)
	}
	window := 7
	m.Scaling = &modelspec.Scaling{IdleSeconds: 9, Behavior: &modelspec.ScalingBehavior{ScaleDown: &modelspec.ScalingRules{StabilizationWindowSeconds: &window}}}
	if s := elastic.SpecOf(m, 4, time.Minute); s.Idle != 9*time.Second || s.Behavior.Down.Window != 7*time.Second {
		t.Errorf("the owner's: %+v", s)
	}
}

func target(s elastic.Spec, name string) float64 {
	for _, m := range s.Metrics {
		if m.Name == name {
			return m.Target
		}
	}
	return 0
}

// TestOptional: a bundle's signal that the engine never had does not hold the
// count; once it was there, its absence does.
func TestOptional(t *testing.T) {
	t.Parallel()
	old := elastic.History{Since: noon.Add(-time.Hour), Proposals: []elastic.Proposal{{At: noon.Add(-time.Hour), Replicas: 3}}}
	spec, in := online(3, 0)
	spec.Metrics = append(spec.Metrics, elastic.Metric{Name: elastic.MetricKVCache, Kind: elastic.PodsAverage, Target: 80, Optional: true})
	d := elastic.Decide(spec, in, old, elastic.Budget{}, noon)
	if d.Replicas >= 3 || len(d.Missing) > 0 || len(d.Inputs) != 1 {
		t.Errorf("a signal that never was holds the count: %+v", d)
	}
	in.Values[elastic.MetricKVCache] = elastic.Reading{Replica: map[string]float64{"": 70}}
	d = elastic.Decide(spec, in, old, elastic.Budget{}, noon)
	delete(in.Values, elastic.MetricKVCache)
	d.Next.Proposals, d.Next.Since = old.Proposals, old.Since
	expect(t, "it went away", elastic.Decide(spec, in, d.Next, elastic.Budget{}, noon), 3, elastic.ReasonMissing)
}

// TestBlind: while a gateway is not heard, nothing goes to sleep.
func TestBlind(t *testing.T) {
	t.Parallel()
	spec, in := online(1, 0)
	in.LastRequest = noon.Add(-time.Hour)
	old := elastic.History{Since: noon.Add(-time.Hour)}
	expect(t, "all heard", elastic.Decide(spec, in, old, elastic.Budget{}, noon), 0, elastic.ReasonIdle)
	in.Blind, in.Values = true, nil
	expect(t, "not all heard", elastic.Decide(spec, in, old, elastic.Budget{}, noon), 1, elastic.ReasonMissing)
	spec, in = online(3, 2)
	in.Blind = true
	old.Proposals = []elastic.Proposal{{At: noon.Add(-time.Hour), Replicas: 3}}
	d := elastic.Decide(spec, in, old, elastic.Budget{}, noon)
	expect(t, "those that were heard see little", d, 3, elastic.ReasonMissing)
	if !slices.Contains(d.Missing, elastic.MissingGateway) {
		t.Errorf("it does not say what is missing: %v", d.Missing)
	}
	_, in = online(3, 30)
	in.Blind = true
	if d := elastic.Decide(spec, in, old, elastic.Budget{}, noon); d.Replicas != 6 {
		t.Errorf("those that were heard see much: %+v", d)
	}
}
