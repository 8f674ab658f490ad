package kube

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/modelspec"
)

var now = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

// object is a ModelService for two replicas that the operator has seen.
func object() *v1alpha1.ModelService {
	ref := budget.Ref{Tenant: "team-a", ID: "demo"}
	ms := newObject(delivery.Desired{Ref: ref, Ledger: "l", Name: delivery.ObjectName(ref), Generation: 4, Model: modelspec.Default("demo"), Funded: 2}, "ns")
	ms.UID, ms.Generation, ms.Status.ObservedGeneration = "object-1", 9, 9
	return ms
}

func ready(ms *v1alpha1.ModelService, reason, message string) {
	ms.Status.Conditions = append(ms.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: message})
}

// pod runs on a node, with a card, and is ready.
func pod(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID("uid-" + name),
			Annotations: map[string]string{
				v1alpha1.AnnotationObjectUID: "object-1", v1alpha1.AnnotationModel: "demo",
				v1alpha1.AnnotationCard: "GPU-1,GPU-2", v1alpha1.AnnotationCardIndex: "3,x",
			},
		},
		Spec: corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{
			{Name: "sidecar"}, {Name: v1alpha1.ContainerName, Ports: []corev1.ContainerPort{{ContainerPort: 9000}, {Name: v1alpha1.PortName, ContainerPort: 8000}}},
		}},
		Status: corev1.PodStatus{
			PodIP: "fd00::7",
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-3 * time.Minute))},
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Minute))},
			},
			ContainerStatuses: []corev1.ContainerStatus{
				{Name: "sidecar", RestartCount: 7},
				{Name: v1alpha1.ContainerName, RestartCount: 2, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now.Add(-2 * time.Minute))}}},
			},
		},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

func unready(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionFalse }

func waiting(reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		unready(p)
		p.Status.ContainerStatuses[1].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "why"}}
	}
}

func terminating(ago time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(now.Add(-ago))) }
}

func TestReplicaIsWhatThePodShows(t *testing.T) {
	t.Parallel()
	ms := object()
	ms.Status.Pods = []v1alpha1.PodStatus{{Name: "p", UID: "uid-p", Engine: "demo (owned by vllm)"}}
	got := replica(pod("p"), ms)
	want := delivery.Replica{
		Name: "p", UID: "uid-p", Phase: delivery.PhaseReady, Reason: delivery.Available, Node: "node-1",
		Cards:   []delivery.Card{{UUID: "GPU-1", Index: 3, MiB: 4096}, {UUID: "GPU-2", Index: -1, MiB: 4096}},
		Address: "[fd00::7]:8000", Upstream: "demo", Engine: "demo (owned by vllm)", Restarts: 2, EverReady: true,
		PlacedAt: now.Add(-3 * time.Minute), StartedAt: now.Add(-2 * time.Minute), ReadyAt: now.Add(-time.Minute),
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
	// Most of a Pod is not kept, and does not show.
	kept := pod("p", func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "model"}}
		p.Spec.Containers[1].Env = []corev1.EnvVar{{Name: "SECRET", Value: "x"}}
	})
	if slimPod(kept); !reflect.DeepEqual(replica(kept, ms), want) || kept.Spec.Volumes != nil || kept.Spec.Containers[1].Env != nil {
		t.Fatalf("kept of the Pod: %+v", kept.Spec)
	}
}

func TestPhases(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"ready":            {func(*corev1.Pod) {}, "Ready Available"},
		"loading":          {unready, "Loading Loading"},
		"no node":          {func(p *corev1.Pod) { unready(p); p.Spec.NodeName = "" }, "Pending WaitingForNode"},
		"no container yet": {func(p *corev1.Pod) { unready(p); p.Status.ContainerStatuses = nil }, "Starting Loading"},
		"being created":    {waiting("ContainerCreating"), "Starting Loading"},
		"image missing":    {waiting("ImagePullBackOff"), "Backoff ImagePullFailed"},
		"crashing":         {waiting("CrashLoopBackOff"), "Backoff CrashLooping"},
		"evicted":          {func(p *corev1.Pod) { unready(p); p.Status.Phase = corev1.PodFailed }, "Backoff CrashLooping"},
		"terminating":      {terminating(0), "Terminating Draining"},
		"stuck":            {terminating(31 * time.Second), "Terminating ReleaseBlocked"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := replicas([]*corev1.Pod{pod("p", c.change)}, nil, now)[0]
			if got := fmt.Sprint(r.Phase, " ", r.Reason); got != c.want {
				t.Errorf("got %s (%s), want %s", got, r.Message, c.want)
			}
		})
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*v1alpha1.ModelService)
		pods   []*corev1.Pod
		want   string // ready/wanted, generation, reason
		says   string
	}{
		"ready":                      {nil, []*corev1.Pod{pod("a"), pod("b")}, "2/2 4 Available", "2 of 2"},
		"one is":                     {nil, []*corev1.Pod{pod("a"), pod("b", unready)}, "1/2 4 Loading", "1 of 2"},
		"one more than paid for":     {nil, []*corev1.Pod{pod("a"), pod("b"), pod("c")}, "2/2 4 Available", ""},
		"one terminates":             {nil, []*corev1.Pod{pod("a"), pod("b", terminating(0))}, "1/2 4 Loading", ""},
		"the operator says why":      {func(ms *v1alpha1.ModelService) { ready(ms, "NoFragmentFits", "largest 3 MiB") }, nil, "0/2 4 NoFragmentFits", "largest 3 MiB"},
		"not seen yet":               {func(ms *v1alpha1.ModelService) { ready(ms, "NoFragmentFits", "old"); ms.Generation++ }, nil, "0/2 0 Loading", "operator has not seen"},
		"more wanted than paid for":  {func(ms *v1alpha1.ModelService) { ms.Spec.Replicas = 5 }, []*corev1.Pod{pod("a"), pod("b")}, "2/2 4 Available", ""},
		"asleep":                     {func(ms *v1alpha1.ModelService) { ms.Spec.Replicas = 0 }, nil, "0/0 4 ScaledToZero", ""},
		"somebody else's Deployment": {conflict, nil, "0/2 4 NotOwned", "Deployment md of chart x"},
		"going":                      {deleting, []*corev1.Pod{pod("a", terminating(0))}, "0/2 4 Draining", "1 Pods"},
		"stuck":                      {deleting, []*corev1.Pod{pod("a", terminating(time.Hour))}, "0/2 4 ReleaseBlocked", "Pod ns/a on node node-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ms := object()
			if c.change != nil {
				c.change(ms)
			}
			st := statusOf(ms, c.pods, now)
			if got := fmt.Sprintf("%d/%d %d %s", st.Ready, st.Wanted, st.Generation, st.Reason); got != c.want || !strings.Contains(st.Message, c.says) {
				t.Errorf("got %s (%s), want %s (%s)", got, st.Message, c.want, c.says)
			}
			if !st.Exists || st.Object.UID != "object-1" || len(st.Replicas) != len(c.pods) || st.Ledger != "l" {
				t.Errorf("status %+v", st)
			}
		})
	}
}

func conflict(ms *v1alpha1.ModelService) {
	ms.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionOwnershipConflict, Status: metav1.ConditionTrue, Message: "Deployment md of chart x"}}
}

func deleting(ms *v1alpha1.ModelService) { ms.DeletionTimestamp = new(metav1.NewTime(now)) }

// What is left of an object counts for it, and what does not say whose it is
// counts for everybody.
func TestRemains(t *testing.T) {
	t.Parallel()
	nameless := pod("n", func(p *corev1.Pod) { p.Annotations = nil })
	owner := pod("o", func(p *corev1.Pod) {
		p.Annotations, p.OwnerReferences = nil, []metav1.OwnerReference{{Kind: "ReplicaSet", UID: "rs"}, {Kind: "ModelService", UID: "object-2"}}
	})
	var none, some remains
	none.made(pod("d"), new(int32(0)), 0)
	some.made(pod("d"), new(int32(0)), 1)
	for name, c := range map[string]struct {
		left remains
		uid  types.UID
		want bool
	}{
		"nothing":               {remains{}, "object-1", false},
		"its Pod":               {remains{pods: []*corev1.Pod{pod("a")}}, "object-1", true},
		"another's Pod":         {remains{pods: []*corev1.Pod{pod("a")}}, "object-2", false},
		"its Pod by owner":      {remains{pods: []*corev1.Pod{owner}}, "object-2", true},
		"a Pod of nobody":       {remains{pods: []*corev1.Pod{nameless}}, "object-2", true},
		"a Deployment for none": {none, "object-1", false},
		"one with a Pod":        {some, "object-1", true},
	} {
		if got := c.left.of(c.uid); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Proofs outlive their Pods, and are bounded.
func TestProofs(t *testing.T) {
	t.Parallel()
	at := now
	p := newProofs(func() time.Time { at = at.Add(time.Second); return at })
	r := replica(pod("a"), object())
	p.ran("team-a", "md", "object-1", r)
	ended := r
	ended.StartedAt, ended.ReadyAt, ended.Phase = time.Time{}, time.Time{}, delivery.PhaseTerminating
	p.ran("team-a", "md", "object-1", ended)
	p.failed("team-a", "md", "object-1", &delivery.Failure{Reason: delivery.CrashLooping})
	obj, last, fail := p.of("ns", "md")
	if obj.UID != "object-1" || len(last) != 1 || !last[0].ReadyAt.Equal(r.ReadyAt) || !last[0].StartedAt.Equal(r.StartedAt) || fail == nil {
		t.Fatalf("%+v: %+v, %+v", obj, last, fail)
	}
	for i := range 3 * maxReplicas {
		r.UID = fmt.Sprint(i)
		p.ran("team-a", "md", "object-2", r)
	}
	if obj, last, fail = p.of("ns", "md"); obj.UID != "object-2" || len(last) != maxReplicas || fail != nil {
		t.Fatalf("the next object of the name: %+v, %d replicas, %+v", obj, len(last), fail)
	}
	for i := range maxObjects {
		p.ran("team-a", fmt.Sprintf("md-%d", i), "object", r)
	}
	if obj, _, _ = p.of("ns", "md"); obj.UID != "" || len(p.byID) != maxObjects {
		t.Fatalf("%d objects are remembered, the oldest among them: %+v", len(p.byID), obj)
	}
}
