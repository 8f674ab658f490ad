package kube

import (
	"math"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/modelspec"
)

// scaling is how a model's count follows its load, as the custom resource says it.
func scaling(m modelspec.Model) v1alpha1.Scaling {
	out := v1alpha1.Scaling{Min: int32(m.Replicas.Min), Max: int32(m.Replicas.Max), Actuator: string(m.Acts())} //nolint:gosec // modelspec bounds all of these
	s := m.Scaling
	if s == nil {
		return out
	}
	out.IdleSeconds, out.Paused = int32(s.IdleSeconds), s.Paused //nolint:gosec // as above
	if t := s.Targets; t != (modelspec.ScalingTargets{}) {
		out.Targets = &v1alpha1.ScalingTargets{
			QueueDepth: int32(t.QueueDepth), KVCachePercent: int32(t.KVCachePercent), //nolint:gosec // as above
			GPUMemoryPercent: int32(t.GPUMemoryPercent), LatencyP99Milliseconds: int32(t.LatencyP99Milliseconds), //nolint:gosec // as above
		}
	}
	if b := s.Behavior; b != nil {
		out.Behavior = &v1alpha1.ScalingBehavior{ScaleUp: scalingRules(b.ScaleUp), ScaleDown: scalingRules(b.ScaleDown)}
	}
	return out
}

func scalingRules(r *modelspec.ScalingRules) *v1alpha1.ScalingRules {
	if r == nil {
		return nil
	}
	out := &v1alpha1.ScalingRules{SelectPolicy: r.SelectPolicy}
	if w := r.StabilizationWindowSeconds; w != nil {
		out.StabilizationWindowSeconds = new(int32(*w)) //nolint:gosec // modelspec bounds it
	}
	if t := r.Tolerance; t != nil { // no fractions in a custom resource
		out.TolerancePermille = new(int32(math.Round(*t * 1000)))
	}
	for _, p := range r.Policies {
		out.Policies = append(out.Policies, v1alpha1.ScalingPolicy{Type: p.Type, Value: int32(p.Value), PeriodSeconds: int32(p.PeriodSeconds)}) //nolint:gosec // modelspec bounds both
	}
	return out
}
