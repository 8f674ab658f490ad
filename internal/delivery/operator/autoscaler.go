package operator

import (
	"fmt"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/elastic"
	"modeldock.io/internal/modelspec"
)

// kindAutoscaler is a child where scaling.actuator is hpa.
const kindAutoscaler = "HorizontalPodAutoscaler"

// autoscaled reports whether the operator keeps an autoscaler for m: it is
// asked for and has room to act.
func autoscaled(m *v1alpha1.ModelService) bool {
	s := m.Spec.Scaling
	return modelspec.Actuator(s.Actuator) == modelspec.ActuatorHPA && s.Min < s.Max && !s.Paused
}

// autoscalerOf scales the ModelService, whose workload never runs more than is
// funded. The numbers are the reference's where m has none of its own. The
// queue is the model's total: it proposes the right count also while no
// replica is ready, where a mean over Pods has nothing to say. At zero an
// autoscaler stands still, so its least is one.
func autoscalerOf(m *v1alpha1.ModelService) *autoscalingv2ac.HorizontalPodAutoscalerApplyConfiguration {
	s, reference := m.Spec.Scaling, elastic.Reference()
	up, down := rulesOf(reference.Behavior.Up), rulesOf(reference.Behavior.Down)
	if b := s.Behavior; b != nil {
		override(up, b.ScaleUp)
		override(down, b.ScaleDown)
	}
	return autoscalingv2ac.HorizontalPodAutoscaler(m.Name, m.Namespace).
		WithLabels(labelsOf(m)).WithAnnotations(annotationsOf(m)).WithOwnerReferences(ownerReference(m)).
		WithSpec(autoscalingv2ac.HorizontalPodAutoscalerSpec().
			WithScaleTargetRef(autoscalingv2ac.CrossVersionObjectReference().
				WithAPIVersion(v1alpha1.GroupVersion().String()).WithKind(kindModelService).WithName(m.Name)).
			WithMinReplicas(max(1, s.Min)).WithMaxReplicas(s.Max).
			WithMetrics(metricsOf(m)...).
			WithBehavior(autoscalingv2ac.HorizontalPodAutoscalerBehavior().WithScaleUp(up).WithScaleDown(down)))
}

// metricsOf are the queue, and what of a replica's memory follows the load: an
// engine of class llm takes nearly all of it at its start, so that of this
// class the cache counts, unless its owner asks for the memory.
func metricsOf(m *v1alpha1.ModelService) []*autoscalingv2ac.MetricSpecApplyConfiguration {
	var t v1alpha1.ScalingTargets
	if m.Spec.Scaling.Targets != nil {
		t = *m.Spec.Scaling.Targets
	}
	queue, memory := reference(elastic.MetricQueue), reference(elastic.MetricMemory)
	if t.QueueDepth > 0 {
		queue = t.QueueDepth
	}
	llm := modelspec.Class(m.Spec.Class) == modelspec.ClassLLM || m.Spec.Class == ""
	if llm && t.KVCachePercent == 0 && t.GPUMemoryPercent == 0 {
		t.KVCachePercent = memory
	}
	if !llm && t.GPUMemoryPercent == 0 {
		t.GPUMemoryPercent = memory
	}
	list := []*autoscalingv2ac.MetricSpecApplyConfiguration{
		ofObject(m, elastic.MetricQueue, autoscalingv2ac.MetricTarget().WithType(autoscalingv2.AverageValueMetricType).WithAverageValue(quantity(queue))),
	}
	for _, of := range []struct {
		name   string
		target int32
	}{{elastic.MetricKVCache, t.KVCachePercent}, {elastic.MetricMemory, t.GPUMemoryPercent}} {
		if of.target > 0 {
			list = append(list, autoscalingv2ac.MetricSpec().WithType(autoscalingv2.PodsMetricSourceType).WithPods(
				autoscalingv2ac.PodsMetricSource().WithMetric(autoscalingv2ac.MetricIdentifier().WithName(of.name)).
					WithTarget(autoscalingv2ac.MetricTarget().WithType(autoscalingv2.AverageValueMetricType).WithAverageValue(quantity(of.target)))))
		}
	}
	if t.LatencyP99Milliseconds > 0 {
		list = append(list, ofObject(m, elastic.MetricLatency, autoscalingv2ac.MetricTarget().WithType(autoscalingv2.ValueMetricType).WithValue(quantity(t.LatencyP99Milliseconds))))
	}
	return list
}

func reference(metric string) int32 {
	for _, m := range elastic.Reference().Metrics {
		if m.Name == metric {
			return int32(m.Target)
		}
	}
	return 0
}

func quantity(v int32) resource.Quantity { return *resource.NewQuantity(int64(v), resource.DecimalSI) }

func ofObject(m *v1alpha1.ModelService, name string, target *autoscalingv2ac.MetricTargetApplyConfiguration) *autoscalingv2ac.MetricSpecApplyConfiguration {
	return autoscalingv2ac.MetricSpec().WithType(autoscalingv2.ObjectMetricSourceType).WithObject(autoscalingv2ac.ObjectMetricSource().
		WithDescribedObject(autoscalingv2ac.CrossVersionObjectReference().WithAPIVersion(v1alpha1.GroupVersion().String()).WithKind(kindModelService).WithName(m.Name)).
		WithMetric(autoscalingv2ac.MetricIdentifier().WithName(name)).WithTarget(target))
}

func rulesOf(r elastic.Rules) *autoscalingv2ac.HPAScalingRulesApplyConfiguration {
	out := autoscalingv2ac.HPAScalingRules().WithStabilizationWindowSeconds(int32(r.Window.Seconds())).WithSelectPolicy(autoscalingv2.MaxChangePolicySelect)
	for _, p := range r.Policies {
		kind := autoscalingv2.PodsScalingPolicy
		if p.Percent {
			kind = autoscalingv2.PercentScalingPolicy
		}
		out.WithPolicies(policy(kind, int32(p.Value), int32(p.Period.Seconds()))) //nolint:gosec // constants
	}
	return out
}

func policy(kind autoscalingv2.HPAScalingPolicyType, value, seconds int32) *autoscalingv2ac.HPAScalingPolicyApplyConfiguration {
	return autoscalingv2ac.HPAScalingPolicy().WithType(kind).WithValue(value).WithPeriodSeconds(seconds)
}

// override puts what the owner wrote in the reference's place.
func override(r *autoscalingv2ac.HPAScalingRulesApplyConfiguration, by *v1alpha1.ScalingRules) {
	if by == nil {
		return
	}
	if by.StabilizationWindowSeconds != nil {
		r.WithStabilizationWindowSeconds(*by.StabilizationWindowSeconds)
	}
	if by.SelectPolicy != "" {
		r.WithSelectPolicy(autoscalingv2.ScalingPolicySelect(by.SelectPolicy))
	}
	if by.TolerancePermille != nil {
		r.WithTolerance(*resource.NewMilliQuantity(int64(*by.TolerancePermille), resource.DecimalSI))
	}
	if len(by.Policies) > 0 {
		r.Policies = nil
		for _, p := range by.Policies {
			r.WithPolicies(policy(autoscalingv2.HPAScalingPolicyType(p.Type), p.Value, p.PeriodSeconds))
		}
	}
}

// scalers tells the autoscalers that were seen apart.
type scalers struct {
	own    *autoscalingv2.HorizontalPodAutoscaler // made for this object
	others []*autoscalingv2.HorizontalPodAutoscaler
	below  []*autoscalingv2.HorizontalPodAutoscaler // on the Deployment
}

func (o Observed) scalers() scalers {
	var s scalers
	for i := range o.Autoscalers {
		h := &o.Autoscalers[i]
		owner := metav1.GetControllerOf(h)
		switch {
		case owner != nil && owner.UID == o.Object.UID:
			s.own = h
		case terminating(h):
		case h.Spec.ScaleTargetRef.Kind == kindModelService:
			s.others = append(s.others, h)
		default:
			s.below = append(s.below, h)
		}
	}
	return s
}

// autoscaler keeps the one that was asked for, unless another one scales this
// object already: with two of them on one object, neither acts.
func (s *Steps) autoscaler(d Declared, o Observed) error {
	seen := o.scalers()
	wanted := d.Autoscaler != nil && len(seen.others) == 0
	switch {
	case wanted:
		return s.child(o.Object, kindAutoscaler, d.Autoscaler, childOf(seen.own))
	case seen.own != nil && !terminating(seen.own):
		why := "scaling.actuator is not hpa, or there is nothing to scale"
		if d.Autoscaler != nil {
			why = "another autoscaler scales this object"
		}
		s.Actions = append(s.Actions, Action{Verb: Delete, Kind: kindAutoscaler, Name: seen.own.Name, UID: seen.own.UID, Why: why})
	}
	return nil
}

// fromKEDA reports an autoscaler that KEDA made.
func fromKEDA(h *autoscalingv2.HorizontalPodAutoscaler) bool {
	owner := metav1.GetControllerOf(h)
	return owner != nil && owner.Kind == "ScaledObject"
}

func namesOf(list []*autoscalingv2.HorizontalPodAutoscaler) string {
	var names []string
	for _, h := range list {
		if owner := metav1.GetControllerOf(h); owner != nil {
			names = append(names, fmt.Sprintf("%s %s (by its HorizontalPodAutoscaler %s)", owner.Kind, owner.Name, h.Name))
		} else {
			names = append(names, kindAutoscaler+" "+h.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// conflictingScalers says which autoscalers are in the way; false if none is.
// One that the actuator names (KEDA's for keda, a person's own instead of
// ours for hpa) is none.
func (o Observed) conflictingScalers() (c cause, inTheWay bool) {
	m, seen := o.Object, o.scalers()
	actuator := modelspec.Actuator(m.Spec.Scaling.Actuator)
	if actuator == "" {
		actuator = modelspec.ActuatorDirect
	}
	switch others := seen.others; {
	case len(others) > 1:
		return cause{v1alpha1.ReasonAutoscalersFight, fmt.Sprintf("%s all scale this ModelService, so that none of them can; keep one", namesOf(others))}, true
	case len(others) == 1 && !expected(actuator, others[0]):
		return cause{v1alpha1.ReasonForeignAutoscaler, fmt.Sprintf("%s scales this ModelService, and scaling.actuator is %s; ModelDock leaves the count to it: delete it, or set scaling.actuator to %s", namesOf(others), actuator, fitting(others[0]))}, true
	case len(seen.below) > 0:
		return cause{v1alpha1.ReasonAutoscalerBelow, fmt.Sprintf("%s scales the Deployment below, which runs %d replicas as wanted and funded, whatever it writes; delete it, or let it scale ModelService %s", namesOf(seen.below), Running(m), m.Name)}, true
	}
	return c, false
}

func expected(a modelspec.Actuator, h *autoscalingv2.HorizontalPodAutoscaler) bool {
	return fitting(h) == a
}

// fitting is the actuator under which an autoscaler is as it should be.
func fitting(h *autoscalingv2.HorizontalPodAutoscaler) modelspec.Actuator {
	if fromKEDA(h) {
		return modelspec.ActuatorKEDA
	}
	return modelspec.ActuatorHPA
}
