package operator

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"modeldock.io/api/v1alpha1"
)

// tester is a test or one run of a property.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func options() Options { return Options{}.withDefaults() }

// start is the time at which tests begin.
func start() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

func newService() *v1alpha1.ModelService {
	return &v1alpha1.ModelService{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "models", Name: "md-demo", UID: "uid-1", Generation: 3, Finalizers: []string{v1alpha1.FinalizerLedger},
		},
		Spec: v1alpha1.ModelServiceSpec{
			Tenant: "team-a", RequestID: "demo", Model: v1alpha1.Model{Name: "tiny", Version: "v1"},
			Engine: v1alpha1.Engine{Kind: "simulated"}, GPU: v1alpha1.GPU{MemoryMiB: 4096, Count: 1},
			Replicas: 1, Budget: v1alpha1.Budget{FundedReplicas: 1}, Scaling: v1alpha1.Scaling{Min: 1, Max: 4},
		},
	}
}

func declared(t tester, m *v1alpha1.ModelService, o Options) Declared {
	t.Helper()
	d, err := Build(m, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// settled is the world after everything that m declares has come true: the
// children as declared, and as many ready Pods as may run.
func settled(t tester, m *v1alpha1.ModelService, o Options) Observed {
	t.Helper()
	d := declared(t, m, o)
	world := Observed{Object: m, Now: start(), Deployment: &appsv1.Deployment{}, Service: &corev1.Service{}}
	for _, c := range []struct {
		declare map[string]any
		into    any
	}{{d.Deployment, world.Deployment}, {d.Service, world.Service}} {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(c.declare, c.into); err != nil {
			t.Fatal(err)
		}
	}
	world.Deployment.UID, world.Service.UID = "deployment-1", "service-1"
	world.Deployment.Generation, world.Deployment.Status.ObservedGeneration = 1, 1
	world.Deployment.Annotations[revisionAnnotation] = "1"
	world.ReplicaSets = []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name + "-1", UID: "set-1", Annotations: map[string]string{revisionAnnotation: "1", annotationDeclared: world.Deployment.Annotations[annotationDeclared]},
		OwnerReferences: controlledBy(kindDeployment, world.Deployment.UID),
	}}}
	for i := range Running(m) {
		world.Pods = append(world.Pods, readyPod(m, string('a'+i), "set-1"))
	}
	return world
}

func controlledBy(kind string, uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{Kind: kind, Name: "owner", UID: uid, Controller: ptr.To(true)}}
}

func readyPod(m *v1alpha1.ModelService, name string, set types.UID) corev1.Pod {
	since := metav1.NewTime(start().Add(-time.Minute))
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: m.Namespace, Name: name, UID: types.UID("pod-" + name), Labels: labelsOf(m), Annotations: annotationsOf(m),
			OwnerReferences: controlledBy(kindReplicaSet, set),
		},
		Spec: corev1.PodSpec{NodeName: "node-1"},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "192.0.2.1", StartTime: &metav1.Time{Time: since.Add(-time.Minute)},
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: since}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: engineContainer, Image: "modeldock", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
		},
	}
}

// unready turns a Pod's condition as a kubelet does.
func unready(p *corev1.Pod, at time.Time, engine corev1.ContainerStatus) {
	engine.Name = engineContainer
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(at)}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{engine}
}

func planned(t tester, o Observed, opts Options) Steps {
	t.Helper()
	var d Declared
	if !terminating(o.Object) {
		d = declared(t, o.Object, opts)
	}
	s, err := Plan(d, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func judged(t tester, o Observed, opts Options) v1alpha1.ModelServiceStatus {
	t.Helper()
	return Judge(View{Observed: o, Steps: planned(t, o, opts), GPU: opts.GPU.Mode, StuckAfter: opts.StuckAfter})
}

func condition(t tester, st v1alpha1.ModelServiceStatus, kind string) metav1.Condition {
	t.Helper()
	for _, c := range st.Conditions {
		if c.Type == kind {
			return c
		}
	}
	t.Fatalf("there is no condition %s", kind)
	return metav1.Condition{}
}
