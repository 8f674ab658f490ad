package operator

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"modeldock.io/api/v1alpha1"
)

func verbs(s Steps) []string {
	var out []string
	for _, a := range s.Actions {
		out = append(out, string(a.Verb)+" "+a.Kind)
	}
	return out
}

func TestPlanIsEmptyOnceEverythingIsThere(t *testing.T) {
	t.Parallel()
	if s := planned(t, settled(t, newService(), options()), options()); len(s.Actions)+len(s.Conflicts) > 0 || s.Waiting != "" {
		t.Errorf("planned %v, conflicts %v, waiting for %q", s.Actions, s.Conflicts, s.Waiting)
	}
}

func TestPlanBeginsWithTheFinalizer(t *testing.T) {
	t.Parallel()
	m := newService()
	m.Finalizers = nil
	got := verbs(planned(t, Observed{Object: m}, options()))
	if want := []string{"AddFinalizer ModelService", "Create Deployment"}; !slices.Equal(got, want) {
		t.Errorf("planned %v, want %v", got, want)
	}
}

// A Service has endpoints only once a Pod has an address, which it has before
// it is ready, and keeps them while no Pod is there.
func TestServiceComesWithTheFirstAddress(t *testing.T) {
	t.Parallel()
	o := settled(t, newService(), options())
	service := o.Service
	o.Service, o.Pods[0].Status.PodIP = nil, ""
	unready(&o.Pods[0], start(), corev1.ContainerStatus{})
	if s := planned(t, o, options()); len(s.Actions) > 0 {
		t.Errorf("planned %v before a Pod has an address", s.Actions)
	}
	if c := condition(t, judged(t, o, options()), v1alpha1.ConditionChildrenApplied); c.Status != metav1.ConditionTrue {
		t.Errorf("before a Pod has an address: %+v", c)
	}
	o.Pods[0].Status.PodIP = "192.0.2.1"
	if got, want := verbs(planned(t, o, options())), []string{"Create Service"}; !slices.Equal(got, want) {
		t.Errorf("planned %v once a Pod has an address, want %v", got, want)
	}
	if c := condition(t, judged(t, o, options()), v1alpha1.ConditionChildrenApplied); c.Status != metav1.ConditionFalse {
		t.Errorf("before the Service is there: %+v", c)
	}
	o.Service, o.Pods = service, nil
	o.Service.Spec.Selector = map[string]string{"app": "web"}
	if got, want := verbs(planned(t, o, options())), []string{"Apply Service"}; !slices.Equal(got, want) {
		t.Errorf("planned %v for a Service that is there, want %v", got, want)
	}
}

// The order of a release, from the first step to the last.
func TestReleaseTakesChildrenInOrder(t *testing.T) {
	t.Parallel()
	now := metav1.NewTime(start())
	o := settled(t, newService(), options())
	o.Object.DeletionTimestamp = &now
	step := func(want ...string) {
		t.Helper()
		if got := verbs(planned(t, o, options())); !slices.Equal(got, want) {
			t.Errorf("planned %v, want %v", got, want)
		}
	}
	step("Delete Deployment")
	o.Deployment.DeletionTimestamp = &now
	step()
	o.Deployment = nil
	step("Delete ReplicaSet")
	o.ReplicaSets[0].DeletionTimestamp = &now
	step()
	o.ReplicaSets = nil
	step("Delete Pod")
	o.Pods[0].DeletionTimestamp = &now
	step()
	if s := planned(t, o, options()); s.Waiting != "Pods that still hold their cards: a" {
		t.Errorf("waiting for %q", s.Waiting)
	}
	o.Pods[0].Status.Phase = corev1.PodFailed // its object is there all the same
	step()
	o.Pods = nil
	step("Delete Service")
	o.Service = nil
	step("RemoveFinalizer ModelService")
	o.Object.Finalizers = []string{"somebody/else"}
	step()
}

// Pods that another kind of controller keeps are left to it, and waited for.
func TestReleaseLeavesOthersPodsToTheirController(t *testing.T) {
	t.Parallel()
	now := metav1.NewTime(start())
	m := newService()
	m.DeletionTimestamp = &now
	p := readyPod(m, "copied", "x")
	p.OwnerReferences = controlledBy("StatefulSet", "theirs")
	if s := planned(t, Observed{Object: m, Pods: []corev1.Pod{p}}, options()); len(s.Actions) > 0 || s.Waiting == "" {
		t.Errorf("planned %v, waiting for %q", s.Actions, s.Waiting)
	}
}

// The strategy follows the spare card when Pods change, and never by itself.
func TestStrategyChangesOnlyWithTheTemplate(t *testing.T) {
	t.Parallel()
	spare := options()
	spare.SpareCard = func(*v1alpha1.ModelService) bool { return true }
	o := settled(t, newService(), options())
	if s := planned(t, o, spare); len(s.Actions) > 0 {
		t.Errorf("a card became spare, and %v was planned", s.Actions)
	}
	o.Object.Spec.Engine.Image = "modeldock:next"
	s := planned(t, o, spare)
	if len(s.Actions) != 1 || s.Actions[0].Verb != Apply {
		t.Fatalf("planned %v", s.Actions)
	}
	var d appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(s.Actions[0].Declare, &d); err != nil {
		t.Fatal(err)
	}
	if r := d.Spec.Strategy.RollingUpdate; r.MaxSurge.IntValue() != 1 || r.MaxUnavailable.IntValue() != 0 {
		t.Errorf("the rollout's strategy is %v", r)
	}
}

// drawWorld makes a world in which anything may be missing, edited, foreign or
// on its way out.
func drawWorld(rt *rapid.T) Observed {
	m := newService()
	m.Spec.Replicas = rapid.Int32Range(0, 5).Draw(rt, "replicas")
	m.Spec.Budget.FundedReplicas = rapid.Int32Range(0, 5).Draw(rt, "funded")
	o := settled(rt, m, options())
	now := metav1.NewTime(start())
	yes := func(label string) bool { return rapid.Bool().Draw(rt, label) }
	if yes("deleted") {
		m.DeletionTimestamp = &now
	}
	if yes("no finalizer") {
		m.Finalizers = nil
	}
	disturb := func(kind string, c metav1.Object, drop func()) {
		switch rapid.SampledFrom([]string{"as it is", "missing", "foreign", "no owner", "edited", "going"}).Draw(rt, kind) {
		case "missing":
			drop()
		case "foreign":
			c.SetOwnerReferences(controlledBy("Rollout", "theirs"))
		case "no owner":
			c.SetOwnerReferences(nil)
		case "edited":
			c.SetLabels(map[string]string{"their/label": "x"})
		case "going":
			c.SetDeletionTimestamp(&now)
		}
	}
	disturb(kindDeployment, o.Deployment, func() { o.Deployment = nil })
	disturb(kindService, o.Service, func() { o.Service = nil })
	disturb(kindReplicaSet, &o.ReplicaSets[0], func() { o.ReplicaSets = nil })
	o.Pods = o.Pods[:rapid.IntRange(0, len(o.Pods)).Draw(rt, "pods")]
	for i := range o.Pods {
		if yes("pod ends") {
			o.Pods[i].DeletionTimestamp = &now
		}
	}
	return o
}

// carryOut does to the world what an API server and its controllers would.
func carryOut(t tester, o Observed, actions []Action) Observed {
	for _, a := range actions {
		switch {
		case a.Verb == AddFinalizer:
			o.Object.Finalizers = append(o.Object.Finalizers, v1alpha1.FinalizerLedger)
		case a.Verb == RemoveFinalizer:
			o.Object.Finalizers = nil
		case a.Verb == Delete && a.Kind == kindService:
			o.Service = nil
		case a.Verb == Delete && a.Kind == kindPod:
			o.Pods = slices.DeleteFunc(slices.Clone(o.Pods), func(p corev1.Pod) bool { return p.UID == a.UID })
		case a.Verb == Delete && a.Kind == kindReplicaSet:
			o.ReplicaSets = nil
			o.Pods = nil
		case a.Verb == Delete && a.Kind == kindDeployment:
			o.Deployment = nil
			o.ReplicaSets = nil
			o.Pods = nil
		case a.Kind == kindDeployment:
			d := &appsv1.Deployment{}
			become(t, a, d, o.Deployment)
			o.Deployment = d
		case a.Kind == kindService:
			s := &corev1.Service{}
			become(t, a, s, o.Service)
			o.Service = s
		}
	}
	return o
}

func become(t tester, a Action, into, live child) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(a.Declare, into); err != nil {
		t.Fatal(err)
	}
	into.SetUID(types.UID("new-" + a.Kind))
	if a.Verb == Apply {
		into.SetUID(live.GetUID())
	}
}

func TestPlanProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		o := drawWorld(rt)
		s := planned(rt, o, options())
		foreign := map[types.UID]bool{}
		for kind, c := range map[string]child{kindDeployment: childOf(o.Deployment), kindService: childOf(o.Service)} {
			if c != nil && conflictOf(o.Object, kind, c) != nil {
				foreign[c.GetUID()] = true
			}
		}
		for _, a := range s.Actions {
			if foreign[a.UID] {
				rt.Fatalf("%s is somebody else's: %v", a.Name, a)
			}
			if (a.Verb == Create && (a.Kind == kindDeployment && o.Deployment != nil || a.Kind == kindService && o.Service != nil)) ||
				(a.Verb != Create && a.UID == "") {
				rt.Fatalf("it does not say which object it means: %v", a)
			}
			if terminating(o.Object) && (a.Verb == Create || a.Verb == Apply || a.Verb == AddFinalizer) {
				rt.Fatalf("a release makes something: %v", a)
			}
			if a.Verb == RemoveFinalizer && len(o.Pods)+len(o.ReplicaSets) > 0 {
				rt.Fatalf("the slots would come back while %d Pods are left", len(o.Pods))
			}
			if a.Kind == kindDeployment && a.Declare != nil {
				if n := a.Declare["spec"].(map[string]any)["replicas"].(int64); n > int64(o.Object.Spec.Budget.FundedReplicas) || n > int64(o.Object.Spec.Replicas) {
					rt.Fatalf("%d replicas would run; %d are wanted and %d funded", n, o.Object.Spec.Replicas, o.Object.Spec.Budget.FundedReplicas)
				}
			}
		}
		// Carried out, the plan leaves nothing to do for a living object, and
		// a release comes to its end.
		if !terminating(o.Object) {
			if again := planned(rt, carryOut(rt, o, s.Actions), options()); len(again.Actions) > 0 {
				rt.Fatalf("after %v there is still %v to do", s.Actions, again.Actions)
			}
			return
		}
		for range 6 {
			o = carryOut(rt, afterAWhile(o), planned(rt, afterAWhile(o), options()).Actions)
		}
		if slices.Contains(o.Object.Finalizers, v1alpha1.FinalizerLedger) {
			rt.Fatalf("the release does not end: it still plans %v and waits for %q", s.Actions, planned(rt, o, options()).Waiting)
		}
	})
}

// afterAWhile is the world once everything on its way out is gone.
func afterAWhile(o Observed) Observed {
	if o.Deployment != nil && o.Deployment.DeletionTimestamp != nil {
		o.Deployment = nil
	}
	if o.Service != nil && o.Service.DeletionTimestamp != nil {
		o.Service = nil
	}
	o.ReplicaSets = slices.DeleteFunc(slices.Clone(o.ReplicaSets), func(r metav1.PartialObjectMetadata) bool {
		return r.DeletionTimestamp != nil || madeByOther(&r)
	})
	o.Pods = slices.DeleteFunc(slices.Clone(o.Pods), func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	return o
}

// madeByOther is a ReplicaSet that its own controller ends.
func madeByOther(r *metav1.PartialObjectMetadata) bool { return !madeBy(r, kindDeployment) }
