package modelspec

import (
	"fmt"
	"slices"
)

// Scaling says how the number of replicas between min and max follows the
// load. The zero value is the class's and workload's bundle under the direct
// actuator; nil says the same, and is its one spelling in a model: see
// Canonical.
type Scaling struct {
	Actuator Actuator         `json:"actuator,omitempty"` // empty: direct
	Targets  ScalingTargets   `json:"targets,omitzero"`
	Behavior *ScalingBehavior `json:"behavior,omitempty"` // nil: the bundle's
	// IdleSeconds without a request, counted from Ready, after which a model
	// with replicas.min 0 sleeps; 0: the bundle's.
	IdleSeconds int `json:"idleSeconds,omitempty"`
	// Asleep is how many replicas beyond the wanted ones stay loaded in host
	// memory when they are not needed any more, where the engine can sleep.
	// One takes as much of it as it takes of its cards: GPUMemory × GPUs.
	Asleep int `json:"asleep,omitempty"`
	// Paused leaves the count as it is; what is recommended stays visible.
	Paused bool `json:"paused,omitempty"`
}

// Actuator names the one who writes the number of replicas.
type Actuator string

// The actuators.
const (
	ActuatorDirect Actuator = "direct" // ModelDock
	ActuatorHPA    Actuator = "hpa"    // a HorizontalPodAutoscaler; ModelDock between 0 and 1
	ActuatorKEDA   Actuator = "keda"   // KEDA; the same
	ActuatorNone   Actuator = "none"   // a person
)

// Actuators lists them in the order shown to people.
func Actuators() []Actuator {
	return []Actuator{ActuatorDirect, ActuatorHPA, ActuatorKEDA, ActuatorNone}
}

// ScalingTargets are what a replica should carry; 0: the bundle's target.
type ScalingTargets struct {
	QueueDepth             int `json:"queueDepth,omitempty"`       // waiting requests per replica
	KVCachePercent         int `json:"kvCachePercent,omitempty"`   // of the engine's cache
	GPUMemoryPercent       int `json:"gpuMemoryPercent,omitempty"` // above the idle baseline
	LatencyP99Milliseconds int `json:"latencyP99Milliseconds,omitempty"`
}

// ScalingBehavior is the behavior of a HorizontalPodAutoscaler v2. What it
// leaves out is the bundle's.
type ScalingBehavior struct {
	ScaleUp   *ScalingRules `json:"scaleUp,omitempty"`
	ScaleDown *ScalingRules `json:"scaleDown,omitempty"`
}

// ScalingRules bound the change in one direction.
type ScalingRules struct {
	StabilizationWindowSeconds *int            `json:"stabilizationWindowSeconds,omitempty"`
	SelectPolicy               string          `json:"selectPolicy,omitempty"` // Max, Min, Disabled
	Policies                   []ScalingPolicy `json:"policies,omitempty"`
	Tolerance                  *float64        `json:"tolerance,omitempty"` // of the ratio of value to target
}

// ScalingPolicy is the most that may change within a period.
type ScalingPolicy struct {
	Type          string `json:"type"` // Pods, Percent
	Value         int    `json:"value"`
	PeriodSeconds int    `json:"periodSeconds"`
}

// Policy types and selections, with Kubernetes' names.
const (
	PolicyPods     = "Pods"
	PolicyPercent  = "Percent"
	SelectMax      = "Max"
	SelectMin      = "Min"
	SelectDisabled = "Disabled"
)

// Limits of the settings, as autoscaling/v2 has them.
const (
	maxTarget       = 1_000_000
	maxMilliseconds = 3_600_000
	maxWindow       = 3600
	maxPeriod       = 1800
	maxIdle         = 30 * 24 * 3600
	maxPolicies     = 16
)

// Canonical returns s in its one spelling: what says nothing but the defaults
// is nil, so that writing a default and leaving it out are the same request.
func (s *Scaling) Canonical() *Scaling {
	if s == nil {
		return nil
	}
	c := *s
	if c.Actuator == ActuatorDirect {
		c.Actuator = ""
	}
	if b := c.Behavior; b != nil && b.ScaleUp == nil && b.ScaleDown == nil {
		c.Behavior = nil
	}
	if c == (Scaling{}) {
		return nil
	}
	return &c
}

// Acts is who writes the number of replicas of a model.
func (m Model) Acts() Actuator {
	if m.Scaling == nil || m.Scaling.Actuator == "" {
		return ActuatorDirect
	}
	return m.Scaling.Actuator
}

// Asleep is how many of its replicas stay loaded in host memory at most.
func (m Model) Asleep() int {
	if m.Scaling == nil {
		return 0
	}
	return m.Scaling.Asleep
}

// HostMiB is the host memory that one sleeping replica is counted with: what
// it was given of its cards, since it moves no more than that. Sizes that
// Validate refuses count as the nearest that it takes, so that no sum overflows.
func (m Model) HostMiB() int64 {
	return min(max(m.GPUMemory, 0), MaxGPUMemory) * int64(min(max(m.GPUs, 0), MaxGPUs))
}

// Sleeps reports whether an engine can leave its cards and stay loaded.
func (e Engine) Sleeps() bool { return e == EngineVLLM || e == EngineSimulated }

// Elastic reports whether the number of replicas may change by itself: it has
// room between min and max, or may sleep. A model that is not runs what is
// funded.
func (m Model) Elastic() bool { return m.Replicas.Min < m.Replicas.Max }

// checkScaling judges the settings; where they stand is part of the message.
func (m Model) checkScaling() error {
	s := m.Scaling
	if s == nil {
		return nil
	}
	if s.Actuator != "" && !slices.Contains(Actuators(), s.Actuator) {
		return oneOf("model.scaling.actuator", string(s.Actuator), "direct, hpa, keda, none")
	}
	ranges := []struct {
		field   string
		v, most int
	}{
		{"targets.queueDepth", s.Targets.QueueDepth, maxTarget},
		{"targets.kvCachePercent", s.Targets.KVCachePercent, 100},
		{"targets.gpuMemoryPercent", s.Targets.GPUMemoryPercent, 100},
		{"targets.latencyP99Milliseconds", s.Targets.LatencyP99Milliseconds, maxMilliseconds},
		{"idleSeconds", s.IdleSeconds, maxIdle},
		{"asleep", s.Asleep, MaxReplicas},
	}
	for _, r := range ranges {
		if err := within("model.scaling."+r.field, r.v, 0, r.most); err != nil {
			return err
		}
	}
	if s.Asleep > 0 && !m.Engine.Sleeps() {
		return &FieldError{"model.scaling.asleep", fmt.Sprintf("model.scaling.asleep is %d, but engine %q cannot sleep in host memory; only vllm and simulated can: choose one of them, or leave it out", s.Asleep, m.Engine)}
	}
	if b := s.Behavior; b != nil {
		if err := b.ScaleUp.check("model.scaling.behavior.scaleUp"); err != nil {
			return err
		}
		return b.ScaleDown.check("model.scaling.behavior.scaleDown")
	}
	return nil
}

func (r *ScalingRules) check(field string) error {
	if r == nil {
		return nil
	}
	if w := r.StabilizationWindowSeconds; w != nil {
		if err := within(field+".stabilizationWindowSeconds", *w, 0, maxWindow); err != nil {
			return err
		}
	}
	if t := r.Tolerance; t != nil && !(*t >= 0 && *t <= 1) {
		return &FieldError{field + ".tolerance", fmt.Sprintf("%s.tolerance must be from 0 to 1; got %g", field, *t)}
	}
	if r.SelectPolicy != "" && !slices.Contains([]string{SelectMax, SelectMin, SelectDisabled}, r.SelectPolicy) {
		return oneOf(field+".selectPolicy", r.SelectPolicy, "Max, Min, Disabled")
	}
	if len(r.Policies) > maxPolicies {
		return &FieldError{field + ".policies", fmt.Sprintf("%s.policies has %d entries; at most %d are allowed", field, len(r.Policies), maxPolicies)}
	}
	for i, p := range r.Policies {
		at := fmt.Sprintf("%s.policies[%d]", field, i)
		if p.Type != PolicyPods && p.Type != PolicyPercent {
			return oneOf(at+".type", p.Type, "Pods, Percent")
		}
		if err := within(at+".value", p.Value, 1, maxTarget); err != nil {
			return err
		}
		if err := within(at+".periodSeconds", p.PeriodSeconds, 1, maxPeriod); err != nil {
			return err
		}
	}
	return nil
}

func within(field string, v, least, most int) error {
	if v >= least && v <= most {
		return nil
	}
	return &FieldError{field, fmt.Sprintf("%s must be an integer from %d to %d; got %d", field, least, most, v)}
}
