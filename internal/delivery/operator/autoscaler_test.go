package operator

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"modeldock.io/api/v1alpha1"
)

func scaledService(actuator string) *v1alpha1.ModelService {
	m := newService()
	m.Spec.Scaling.Actuator = actuator
	return m
}

func autoscalerDeclared(t *testing.T, m *v1alpha1.ModelService) *autoscalingv2.HorizontalPodAutoscaler {
	t.Helper()
	h := &autoscalingv2.HorizontalPodAutoscaler{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(declared(t, m, options()).Autoscaler, h); err != nil {
		t.Fatal(err)
	}
	return h
}

// autoscaler on an object or its Deployment; owner says who made it.
func autoscaler(name, kind string, owner ...metav1.OwnerReference) autoscalingv2.HorizontalPodAutoscaler {
	return autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "models", Name: name, UID: types.UID("hpa-" + name), OwnerReferences: owner},
		Spec:       autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: kind, Name: "md-demo"}},
	}
}

// TestAutoscalerHasTheExamplesNumbers: without settings of its own, bounds and
// metrics' names aside, it behaves as deploy/examples/hpa.yaml.
func TestAutoscalerHasTheExamplesNumbers(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../deploy/examples/hpa.yaml")
	if err != nil {
		t.Fatal(err)
	}
	example := &autoscalingv2.HorizontalPodAutoscaler{}
	if err := yaml.UnmarshalStrict(text, example); err != nil {
		t.Fatal(err)
	}
	m := scaledService("hpa")
	m.Spec.Class, m.Spec.Scaling.Min, m.Spec.Scaling.Max = "vision", 2, 16
	h := autoscalerDeclared(t, m)
	for _, r := range []*autoscalingv2.HPAScalingRules{h.Spec.Behavior.ScaleUp, h.Spec.Behavior.ScaleDown} {
		r.SelectPolicy = nil // the API server's default
	}
	if !equality.Semantic.DeepEqual(h.Spec.Behavior, example.Spec.Behavior) || *h.Spec.MinReplicas != *example.Spec.MinReplicas || h.Spec.MaxReplicas != example.Spec.MaxReplicas {
		t.Errorf("declared %+v, the example has %+v", h.Spec, example.Spec)
	}
	if h.Spec.ScaleTargetRef.Kind != example.Spec.ScaleTargetRef.Kind || h.Spec.ScaleTargetRef.APIVersion != example.Spec.ScaleTargetRef.APIVersion {
		t.Errorf("it scales %+v", h.Spec.ScaleTargetRef)
	}
	queue, memory := h.Spec.Metrics[0].Object, h.Spec.Metrics[1].Pods
	if queue.Metric.Name != example.Spec.Metrics[0].Pods.Metric.Name || !queue.Target.AverageValue.Equal(*example.Spec.Metrics[0].Pods.Target.AverageValue) ||
		!equality.Semantic.DeepEqual(memory, example.Spec.Metrics[1].Pods) {
		t.Errorf("metrics %+v and %+v", queue, memory)
	}
}

// TestAutoscalerFollowsItsOwner: what the model's owner wrote goes before the
// reference, and a model that may sleep has a least of one.
func TestAutoscalerFollowsItsOwner(t *testing.T) {
	t.Parallel()
	m := scaledService("hpa")
	window, tolerance := int32(7), int32(50)
	m.Spec.Scaling.Min = 0
	m.Spec.Scaling.Targets = &v1alpha1.ScalingTargets{QueueDepth: 3, LatencyP99Milliseconds: 1500}
	m.Spec.Scaling.Behavior = &v1alpha1.ScalingBehavior{ScaleDown: &v1alpha1.ScalingRules{
		StabilizationWindowSeconds: &window, TolerancePermille: &tolerance, Policies: []v1alpha1.ScalingPolicy{{Type: "Percent", Value: 50, PeriodSeconds: 15}},
	}}
	h := autoscalerDeclared(t, m)
	down := h.Spec.Behavior.ScaleDown
	if *h.Spec.MinReplicas != 1 || *down.StabilizationWindowSeconds != 7 || down.Tolerance.String() != "50m" || len(down.Policies) != 1 || down.Policies[0].Type != autoscalingv2.PercentScalingPolicy {
		t.Errorf("declared %+v", h.Spec)
	}
	var names []string
	for _, metric := range h.Spec.Metrics {
		if metric.Object != nil {
			names = append(names, metric.Object.Metric.Name+" "+string(metric.Object.Target.Type))
		} else {
			names = append(names, metric.Pods.Metric.Name)
		}
	}
	if want := []string{"inference_request_queue_depth AverageValue", "kv_cache_utilization_percent", "inference_latency_p99_milliseconds Value"}; !slices.Equal(names, want) {
		t.Errorf("metrics %v, want %v", names, want)
	}
	if *h.Spec.Behavior.ScaleUp.StabilizationWindowSeconds != 30 {
		t.Errorf("the other direction changed: %+v", h.Spec.Behavior.ScaleUp)
	}
}

// TestPlanKeepsOneAutoscaler: made where it is asked for, put right, and taken
// away when it is not asked for, or when somebody else's scales the object.
func TestPlanKeepsOneAutoscaler(t *testing.T) {
	t.Parallel()
	m := scaledService("hpa")
	o := settled(t, m, options())
	expect := func(what string, want ...string) {
		t.Helper()
		if got := verbs(planned(t, o, options())); !slices.Equal(got, want) {
			t.Errorf("%s: planned %v, want %v", what, got, want)
		}
	}
	expect("asked for", "Create HorizontalPodAutoscaler")
	own := autoscalerDeclared(t, m)
	own.UID = "hpa-own"
	o.Autoscalers = []autoscalingv2.HorizontalPodAutoscaler{*own}
	expect("there")
	o.Autoscalers[0].Spec.MaxReplicas = 99
	expect("changed by hand", "Apply HorizontalPodAutoscaler")
	o.Autoscalers[0].Spec.MaxReplicas = m.Spec.Scaling.Max
	o.Autoscalers = append(o.Autoscalers, autoscaler("mine", kindModelService))
	expect("a person's own", "Delete HorizontalPodAutoscaler")
	o.Autoscalers = o.Autoscalers[:1]
	m.Spec.Scaling.Paused = true
	expect("paused", "Delete HorizontalPodAutoscaler")
	m.Spec.Scaling.Paused, m.Spec.Scaling.Actuator = false, "direct"
	expect("not asked for any more", "Delete HorizontalPodAutoscaler")
}

// TestAutoscalersInTheWay are told of, and those that belong there are not.
func TestAutoscalersInTheWay(t *testing.T) {
	t.Parallel()
	keda := controlledBy("ScaledObject", "so-1")
	for name, c := range map[string]struct {
		actuator string
		all      []autoscalingv2.HorizontalPodAutoscaler
		reason   string // empty: nothing to tell
		says     string
	}{
		"none":                {"direct", nil, "", ""},
		"foreign":             {"direct", []autoscalingv2.HorizontalPodAutoscaler{autoscaler("theirs", kindModelService)}, v1alpha1.ReasonForeignAutoscaler, "HorizontalPodAutoscaler theirs"},
		"a person's, for hpa": {"hpa", []autoscalingv2.HorizontalPodAutoscaler{autoscaler("theirs", kindModelService)}, "", ""},
		"KEDA's, for keda":    {"keda", []autoscalingv2.HorizontalPodAutoscaler{autoscaler("keda", kindModelService, keda...)}, "", ""},
		"KEDA's, for direct":  {"", []autoscalingv2.HorizontalPodAutoscaler{autoscaler("keda", kindModelService, keda...)}, v1alpha1.ReasonForeignAutoscaler, "ScaledObject owner"},
		"a person's, for keda": {"keda", []autoscalingv2.HorizontalPodAutoscaler{autoscaler("theirs", kindModelService)}, v1alpha1.ReasonForeignAutoscaler,
			"set scaling.actuator to hpa"},
		"two":   {"hpa", []autoscalingv2.HorizontalPodAutoscaler{autoscaler("a", kindModelService), autoscaler("b", kindModelService)}, v1alpha1.ReasonAutoscalersFight, "a, HorizontalPodAutoscaler b"},
		"below": {"direct", []autoscalingv2.HorizontalPodAutoscaler{autoscaler("low", kindDeployment)}, v1alpha1.ReasonAutoscalerBelow, "runs 1 replicas"},
	} {
		o := settled(t, scaledService(c.actuator), options())
		o.Autoscalers = c.all
		st := judged(t, o, options())
		i := slices.IndexFunc(st.Conditions, func(s metav1.Condition) bool { return s.Type == v1alpha1.ConditionAutoscalerConflict })
		switch {
		case i < 0 && c.reason != "":
			t.Errorf("%s: nothing is told", name)
		case i >= 0 && (st.Conditions[i].Reason != c.reason || !strings.Contains(st.Conditions[i].Message, c.says)):
			t.Errorf("%s: %+v", name, st.Conditions[i])
		}
		if ready := condition(t, st, v1alpha1.ConditionReady); c.actuator != "hpa" && ready.Status != metav1.ConditionTrue {
			t.Errorf("%s: an autoscaler made the model not ready: %+v", name, ready)
		}
	}
}

// TestExamplesMeanWhatIsThere: the KEDA example scales a ModelService by
// metrics that gateways have, and leaves sleep to ModelDock.
func TestExamplesMeanWhatIsThere(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../deploy/examples/keda.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var example struct {
		Spec struct {
			ScaleTargetRef        autoscalingv2.CrossVersionObjectReference
			IdleReplicaCount      *int32
			CooldownPeriod        int64
			InitialCooldownPeriod int64
			Triggers              []struct{ Metadata map[string]string }
		}
	}
	if err := yaml.Unmarshal(text, &example); err != nil {
		t.Fatal(err)
	}
	if to := example.Spec.ScaleTargetRef; to.Kind != kindModelService || to.APIVersion != v1alpha1.GroupVersion().String() {
		t.Errorf("it scales %+v", to)
	}
	const year = 365 * 24 * 3600
	if s := example.Spec; s.IdleReplicaCount == nil || *s.IdleReplicaCount != 0 || s.CooldownPeriod < year || s.InitialCooldownPeriod < year {
		t.Errorf("KEDA would put a model to sleep, or not let it sleep: %+v", s)
	}
	known, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, trigger := range example.Spec.Triggers {
		for _, name := range regexp.MustCompile(`modeldock_\w+`).FindAllString(trigger.Metadata["query"], -1) {
			found++
			if !strings.Contains(string(known), "| `"+name+"` |") {
				t.Errorf("no process has the metric %s", name)
			}
		}
	}
	if found < 3 {
		t.Errorf("%d metrics were found in %+v", found, example.Spec.Triggers)
	}
}
