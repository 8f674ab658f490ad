package elastic

import (
	"slices"
	"time"

	"modeldock.io/internal/modelspec"
)

// SpecOf is a model's policy: the bundle of its class and workload, with what
// its owner wrote instead. concurrency is how many requests a replica serves
// at once, 0: the class's; lead is how long it takes to start, as measured, 0:
// not known.
func SpecOf(m modelspec.Model, concurrency int, lead time.Duration) Spec {
	return SpecFor(m, concurrency, Ladder{Start: lead})
}

// SpecFor is SpecOf where replicas may sleep. See PacedFor.
func SpecFor(m modelspec.Model, concurrency int, l Ladder) Spec {
	s := For(m.Class, m.Workload, concurrency).PacedFor(l)
	s.Min, s.Max = m.Replicas.Min, m.Replicas.Max
	for i := range s.Metrics {
		// A bundle's signal that an engine never had takes no part.
		s.Metrics[i].Optional = s.Metrics[i].Name == MetricMemory || s.Metrics[i].Name == MetricKVCache && !tellsKVCache(m.Engine)
	}
	if m.Scaling == nil {
		return s
	}
	s.aim(m.Scaling.Targets, m.Class, concurrency)
	if idle := m.Scaling.IdleSeconds; idle > 0 {
		s.Idle = time.Duration(idle) * time.Second
	}
	if b := m.Scaling.Behavior; b != nil {
		s.Behavior.Up = s.Behavior.Up.with(b.ScaleUp)
		s.Behavior.Down = s.Behavior.Down.with(b.ScaleDown)
	}
	return s
}

// tellsKVCache names the engines that always say how full their cache is.
func tellsKVCache(e modelspec.Engine) bool {
	return slices.Contains([]modelspec.Engine{modelspec.EngineSimulated, modelspec.EngineVLLM, modelspec.EngineSGLang}, e)
}

// aim puts the owner's targets in the place of the bundle's; a signal that the
// owner asks for is never optional. A queue alone would take replicas away
// that are busy and have none waiting, so that what runs holds them.
func (s *Spec) aim(t modelspec.ScalingTargets, class modelspec.Class, concurrency int) {
	if t.QueueDepth > 0 {
		if concurrency <= 0 {
			concurrency = Concurrency(class)
		}
		s.Metrics = slices.DeleteFunc(s.Metrics, func(m Metric) bool { return m.Name == MetricOffered })
		s.want(MetricQueue, ObjectAverage, t.QueueDepth)
		s.want(MetricRunning, ObjectAverage, concurrency)
	}
	s.want(MetricKVCache, PodsAverage, t.KVCachePercent)
	s.want(MetricMemory, PodsAverage, t.GPUMemoryPercent)
	s.want(MetricLatency, ObjectValue, t.LatencyP99Milliseconds)
}

func (s *Spec) want(name string, kind Kind, target int) {
	if target <= 0 {
		return
	}
	s.Metrics = slices.DeleteFunc(s.Metrics, func(m Metric) bool { return m.Name == name })
	s.Metrics = append(s.Metrics, Metric{Name: name, Kind: kind, Target: float64(target)})
}

// with overrides what the owner wrote.
func (r Rules) with(o *modelspec.ScalingRules) Rules {
	if o == nil {
		return r
	}
	if o.StabilizationWindowSeconds != nil {
		r.Window = time.Duration(*o.StabilizationWindowSeconds) * time.Second
	}
	if o.SelectPolicy != "" {
		r.Select = Select(o.SelectPolicy)
	}
	if o.Tolerance != nil {
		r.Tolerance = *o.Tolerance
	}
	if len(o.Policies) > 0 {
		r.Policies = nil
		for _, p := range o.Policies {
			r.Policies = append(r.Policies, Policy{Percent: p.Type == modelspec.PolicyPercent, Value: p.Value, Period: time.Duration(p.PeriodSeconds) * time.Second})
		}
	}
	return r
}
