package api

import (
	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/modelspec"
)

// mergedScaling lays what was sent over what is there; a direction of the
// behavior is replaced as a whole.
func mergedScaling(now *modelspec.Scaling, in openapi.Scaling) *modelspec.Scaling {
	var s modelspec.Scaling
	if now != nil {
		s = *now
	}
	if in.Actuator != nil {
		s.Actuator = modelspec.Actuator(*in.Actuator)
	}
	set(&s.IdleSeconds, in.IdleSeconds)
	set(&s.Asleep, in.Asleep)
	set(&s.Paused, in.Paused)
	if t := in.Targets; t != nil {
		set(&s.Targets.QueueDepth, t.QueueDepth)
		set(&s.Targets.KVCachePercent, t.KvCachePercent)
		set(&s.Targets.GPUMemoryPercent, t.GpuMemoryPercent)
		set(&s.Targets.LatencyP99Milliseconds, t.LatencyP99Milliseconds)
	}
	if b := in.Behavior; b != nil {
		var next modelspec.ScalingBehavior
		if s.Behavior != nil {
			next = *s.Behavior
		}
		if b.ScaleUp != nil {
			next.ScaleUp = rules(*b.ScaleUp)
		}
		if b.ScaleDown != nil {
			next.ScaleDown = rules(*b.ScaleDown)
		}
		s.Behavior = &next
	}
	return &s
}

func rules(in openapi.ScalingRules) *modelspec.ScalingRules {
	r := &modelspec.ScalingRules{StabilizationWindowSeconds: in.StabilizationWindowSeconds, Tolerance: in.Tolerance}
	if in.SelectPolicy != nil {
		r.SelectPolicy = string(*in.SelectPolicy)
	}
	for _, p := range value(in.Policies, nil) {
		r.Policies = append(r.Policies, modelspec.ScalingPolicy{Type: string(p.Type), Value: p.Value, PeriodSeconds: p.PeriodSeconds})
	}
	return r
}

// scalingWire is nil where a model has no settings of its own.
func scalingWire(s *modelspec.Scaling) *openapi.Scaling {
	if s == nil {
		return nil
	}
	actuator := openapi.ScalingActuator(modelspec.Model{Scaling: s}.Acts())
	out := &openapi.Scaling{Actuator: &actuator, IdleSeconds: some(s.IdleSeconds), Asleep: some(s.Asleep), Paused: some(s.Paused)}
	if t := s.Targets; t != (modelspec.ScalingTargets{}) {
		out.Targets = &openapi.ScalingTargets{
			QueueDepth: some(t.QueueDepth), KvCachePercent: some(t.KVCachePercent),
			GpuMemoryPercent: some(t.GPUMemoryPercent), LatencyP99Milliseconds: some(t.LatencyP99Milliseconds),
		}
	}
	if b := s.Behavior; b != nil {
		out.Behavior = &openapi.ScalingBehavior{ScaleUp: rulesWire(b.ScaleUp), ScaleDown: rulesWire(b.ScaleDown)}
	}
	return out
}

func rulesWire(r *modelspec.ScalingRules) *openapi.ScalingRules {
	if r == nil {
		return nil
	}
	out := &openapi.ScalingRules{
		StabilizationWindowSeconds: r.StabilizationWindowSeconds, Tolerance: r.Tolerance,
		SelectPolicy: some(openapi.ScalingRulesSelectPolicy(r.SelectPolicy)),
	}
	if len(r.Policies) > 0 {
		list := make([]openapi.ScalingPolicy, 0, len(r.Policies))
		for _, p := range r.Policies {
			list = append(list, openapi.ScalingPolicy{Type: openapi.ScalingPolicyType(p.Type), Value: p.Value, PeriodSeconds: p.PeriodSeconds})
		}
		out.Policies = &list
	}
	return out
}
