package elastic

import (
	"math"
	"slices"
)

// Metric is one signal and what it should be.
type Metric struct {
	Name   string
	Kind   Kind
	Target float64
	// Optional takes no part before it had a value: not every engine tells
	// everything. Once it was there, its absence holds the count as any other's.
	Optional bool
}

// Kind is how a metric becomes a count, with HPA's names.
type Kind string

// The kinds.
const (
	PodsAverage   Kind = "Pods/AverageValue"   // a value per replica, their mean at Target
	ObjectAverage Kind = "Object/AverageValue" // one total, shared by all replicas asked for, Target each
	ObjectValue   Kind = "Object/Value"        // one value, to be at Target, in proportion to ready replicas
)

// Reading is what one metric says. What is absent or NaN is unknown.
type Reading struct {
	Total   *float64           // of an Object metric
	Replica map[string]float64 // of a Pods metric, by replica
}

// Input is one metric's part in a decision.
type Input struct {
	Metric   string   `json:"metric"`
	Value    *float64 `json:"value,omitempty"` // per replica, or the value itself for Object/Value; absent: unknown
	Target   float64  `json:"target"`
	Proposal int      `json:"proposal"`
}

// propose is computeReplicasForMetrics: the greatest proposal; false if none
// is known, or if one is unknown and the rest would shrink.
func (d *Decision) propose(spec Spec, in Signals) (int, bool) {
	most, known := 0, 0
	for _, m := range spec.Metrics {
		n, value, ok := m.count(spec.Behavior, in)
		input := Input{Metric: m.Name, Target: m.Target, Proposal: n}
		switch {
		case ok:
			v := float64(value) / 1000
			input.Value = &v
			most = max(most, n)
			known++
			d.Next.saw(m.Name)
		case m.Optional && !slices.Contains(d.Next.Seen, m.Name):
			continue
		default:
			d.Missing = append(d.Missing, m.Name)
		}
		d.Inputs = append(d.Inputs, input)
	}
	return most, known > 0 && (len(d.Missing) == 0 || most >= in.Replicas)
}

// count is one metric's proposal, and its value in thousandths: HPA's unit,
// whose roundings decide at the edges.
func (m Metric) count(b Behavior, in Signals) (n int, value int64, ok bool) {
	target := milli(m.Target)
	if m.Kind == PodsAverage {
		return in.average(b, in.Values[m.Name].Replica, target)
	}
	total := in.Values[m.Name].Total
	if total == nil && m.Name == MetricOffered {
		total = in.Values[MetricDemand].Total
	}
	if total == nil || math.IsNaN(*total) || math.IsInf(*total, 0) {
		return 0, 0, false
	}
	usage := milli(*total)
	if m.Kind == ObjectValue {
		return in.proportion(b, float64(usage)/float64(target)), usage, len(in.Pods) > 0
	}
	n = in.Replicas
	if ratio := float64(usage) / (float64(target) * float64(n)); !b.within(ratio) {
		n = ceil(float64(usage) / float64(target))
	}
	return n, int64(math.Ceil(float64(usage) / float64(max(in.Replicas, 1)))), true
}

// proportion is getUsageRatioReplicaCount.
func (in Signals) proportion(b Behavior, ratio float64) int {
	if b.within(ratio) {
		return in.Replicas
	}
	return ceil(ratio * float64(in.ready()))
}

// average is calcPlainMetricReplicas: replicas without a value count against
// the direction of the change, those that are Pending only against growth.
func (in Signals) average(b Behavior, values map[string]float64, target int64) (n int, mean int64, ok bool) {
	var sum int64
	known, pending, missing := 0, 0, 0
	for _, p := range in.Pods {
		v, there := values[p.Name]
		switch {
		case p.State == PodEnding:
		case p.State == PodPending:
			pending++
		case !there || math.IsNaN(v) || math.IsInf(v, 0):
			missing++
		default:
			known++
			sum += milli(v)
		}
	}
	if known == 0 {
		return 0, 0, false
	}
	mean = sum / int64(known)
	ratio := float64(mean) / float64(target)
	grow := pending > 0 && ratio > 1
	if !grow && missing == 0 {
		if b.within(ratio) {
			return in.Replicas, mean, true
		}
		return ceil(ratio * float64(known)), mean, true
	}
	// Assume for the others what makes the change smaller.
	counted := known
	if missing > 0 && ratio != 1 {
		counted += missing
		if ratio < 1 {
			sum += int64(missing) * target
		}
	}
	if grow {
		counted += pending
	}
	again := float64(sum/int64(counted)) / float64(target)
	n = ceil(again * float64(counted))
	turned := ratio < 1 && again > 1 || ratio > 1 && again < 1 ||
		again < 1 && n > in.Replicas || again > 1 && n < in.Replicas
	if b.within(again) || turned {
		n = in.Replicas
	}
	return n, mean, true
}

// milli rounds up as resource.Quantity does, but not what is exact in decimals.
func milli(v float64) int64 { return int64(math.Ceil(v*1000 - 1e-6)) }

// ceil rounds up, within what a count can be.
func ceil(v float64) int { return int(min(math.Ceil(v), math.MaxInt32)) }
