package operator

import (
	"reflect"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/delivery"
)

func waiting(reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
}

func failed(restarts int32, state corev1.ContainerState) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		RestartCount: restarts, State: state,
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 137, Reason: "OOMKilled", Message: "first\nlast words", FinishedAt: metav1.NewTime(start()),
		}},
	}
}

// Each case breaks a world in which one replica is ready. What is also true
// but only a consequence must not be the reason.
func TestReasons(t *testing.T) {
	t.Parallel()
	loading := start().Add(-2 * time.Minute) // since the Pod's start
	late := func(o *Observed) {              // the consequence of them all
		o.Deployment.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"}}
	}
	unplaced := func(message string) func(*Observed) {
		return func(o *Observed) {
			o.Pods[0].Spec.NodeName = ""
			o.Pods[0].Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: message}}}
			late(o)
		}
	}
	engine := func(at time.Time, c corev1.ContainerStatus) func(*Observed) {
		return func(o *Observed) { unready(&o.Pods[0], at, c); late(o) }
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	crashed := start().Add(-time.Second)
	for name, c := range map[string]struct {
		change func(*Observed)
		want   delivery.Reason
		text   string
	}{
		"all well":                  {func(*Observed) {}, delivery.Available, "1 of 1"},
		"no fragment":               {unplaced("0/1 nodes: largest fragment 3 MiB"), delivery.NoFragmentFits, "3 MiB"},
		"no memory of the resource": {unplaced("0/2 nodes are available: 2 Insufficient modeldock.io/gpu-memory."), delivery.NoFragmentFits, "gpu-memory"},
		"no node":                   {unplaced("0/2 nodes are available: 2 Insufficient cpu."), delivery.WaitingForNode, "Insufficient cpu"},
		"no scheduler":              {func(o *Observed) { o.Pods[0].Spec.NodeName = ""; o.Pods[0].Status = corev1.PodStatus{} }, delivery.WaitingForNode, "default-scheduler"},
		"pull":                      {engine(loading, waiting("ErrImagePull", "denied")), delivery.ImagePullFailed, "denied"},
		"pull backs off":            {engine(loading, waiting("ImagePullBackOff", "")), delivery.ImagePullFailed, ""},
		"never pull":                {engine(loading, waiting("ErrImageNeverPull", "absent")), delivery.ImagePullFailed, "absent"},
		"container cannot be made":  {engine(loading, waiting("CreateContainerConfigError", "no such secret")), delivery.ModelLoadFailed, "no such secret"},
		"load failed":               {engine(loading, failed(1, waiting("CrashLoopBackOff", "").State)), delivery.ModelLoadFailed, "last words"},
		"load failed, tried again":  {engine(loading, failed(1, running)), delivery.ModelLoadFailed, "exit code 137 (OOMKilled)"},
		"first crash":               {engine(crashed, failed(1, running)), delivery.Crashed, "1 restarts"},
		"crash loop":                {engine(crashed, failed(4, waiting("CrashLoopBackOff", "").State)), delivery.CrashLooping, "last words"},
		"loading":                   {func(o *Observed) { unready(&o.Pods[0], loading, corev1.ContainerStatus{State: running}) }, delivery.Loading, "not answer its health check yet"},
		"stopped answering":         {func(o *Observed) { unready(&o.Pods[0], crashed, corev1.ContainerStatus{State: running}) }, delivery.Loading, "was ready"},
		"nothing but late":          {engine(loading, corev1.ContainerStatus{State: running}), delivery.ProgressDeadlineExceeded, "ProgressDeadlineExceeded"},
		"no Pod yet":                {func(o *Observed) { o.Pods = nil }, delivery.Loading, "0 of 1"},
		"Pods are refused": {func(o *Observed) {
			o.Pods = nil
			late(o)
			o.Deployment.Status.Conditions = append(o.Deployment.Status.Conditions, appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: "exceeded quota"})
		}, delivery.ReplicaFailure, "exceeded quota"},
		"evicted, and a new one": {func(o *Observed) {
			p := readyPod(o.Object, "z", "set-1")
			o.Pods[0].Status.Phase = corev1.PodFailed
			o.Pods = append(o.Pods, p)
		}, delivery.Available, ""},
		"Deployment not seen": {func(o *Observed) {
			o.Deployment.Generation = 2
			o.ReplicaSets[0].Annotations[annotationDeclared] = "of before"
		}, delivery.Loading, "0 of 1"},
		"earlier generation serves": {func(o *Observed) {
			o.Deployment.Generation, o.Deployment.Status.ObservedGeneration, o.Deployment.Annotations[revisionAnnotation] = 2, 2, "2"
		}, delivery.Loading, "1 of an earlier one"},
		"annotated a moment ago":     {func(o *Observed) { o.Deployment.Generation++ }, delivery.Available, "1 of 1"},
		"children not there":         {func(o *Observed) { o.Deployment = nil }, delivery.Loading, ""},
		"child edited":               {func(o *Observed) { o.Deployment.Labels = nil }, delivery.Loading, ""},
		"child going":                {func(o *Observed) { now := metav1.NewTime(start()); o.Service.DeletionTimestamp = &now }, delivery.Loading, "going away"},
		"not ours":                   {func(o *Observed) { o.Deployment.OwnerReferences = controlledBy("Rollout", "x") }, delivery.NotOwned, "Rollout owner (UID x)"},
		"asleep":                     {func(o *Observed) { sleep(o, 0, 1) }, delivery.ScaledToZero, ""},
		"not funded":                 {func(o *Observed) { sleep(o, 2, 0) }, delivery.BudgetBlocked, "2 replicas are wanted"},
		"terminating does not count": {func(o *Observed) { now := metav1.NewTime(start()); o.Pods[0].DeletionTimestamp = &now }, delivery.Loading, "0 of 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := settled(t, newService(), options())
			c.change(&o)
			st := judged(t, o, options())
			ready := condition(t, st, v1alpha1.ConditionReady)
			if ready.Reason != string(c.want) || !strings.Contains(ready.Message, c.text) || (ready.Status == metav1.ConditionTrue) != (c.want == delivery.Available) {
				t.Errorf("Ready=%s (%s): %s; want %s with %q", ready.Status, ready.Reason, ready.Message, c.want, c.text)
			}
		})
	}
}

// sleep sets what is wanted and funded, with a Deployment that follows.
func sleep(o *Observed, wanted, funded int32) {
	o.Object.Spec.Replicas, o.Object.Spec.Budget.FundedReplicas = wanted, funded
	o.Pods = nil
}

func TestMoreWantedThanFundedIsNotReady(t *testing.T) {
	t.Parallel()
	m := newService()
	m.Spec.Replicas = 3
	st := judged(t, settled(t, m, options()), options())
	if c := condition(t, st, v1alpha1.ConditionReady); c.Reason != string(delivery.BudgetBlocked) || c.Status != metav1.ConditionFalse {
		t.Errorf("Ready=%s (%s): %s", c.Status, c.Reason, c.Message)
	}
	if c := condition(t, st, v1alpha1.ConditionEngineReady); c.Status != metav1.ConditionTrue {
		t.Errorf("EngineReady=%s (%s): every funded replica answers", c.Status, c.Message)
	}
}

func TestStuckPodIsNamedOnceItsGraceIsOver(t *testing.T) {
	t.Parallel()
	m := newService()
	o := settled(t, m, options())
	ends := metav1.NewTime(start())
	m.DeletionTimestamp, o.Pods[0].DeletionTimestamp = &ends, &ends
	if c := condition(t, judged(t, o, options()), v1alpha1.ConditionReady); c.Reason != string(delivery.Draining) {
		t.Errorf("within its grace: %s: %s", c.Reason, c.Message)
	}
	o.Now = start().Add(options().StuckAfter)
	st := judged(t, o, options())
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionStalled} {
		if c := condition(t, st, kind); c.Reason != string(delivery.ReleaseBlocked) || !strings.Contains(c.Message, "Pod a on node node-1") {
			t.Errorf("%s: %s: %s", kind, c.Reason, c.Message)
		}
	}
}

// A replica that served for less time than the Pod itself can tell is known as
// one that was ready, however often the status is judged.
func TestReplicaThatWasReadyDidNotFailToLoad(t *testing.T) {
	t.Parallel()
	o := settled(t, newService(), options())
	o.Object.Status = judged(t, o, options())
	started := o.Pods[0].Status.StartTime.Time
	for range 3 {
		unready(&o.Pods[0], started, failed(4, waiting("CrashLoopBackOff", "").State))
		o.Object.Status = judged(t, o, options())
		if c := condition(t, o.Object.Status, v1alpha1.ConditionReady); c.Reason != string(delivery.CrashLooping) {
			t.Errorf("Ready=%s (%s), want CrashLooping", c.Status, c.Reason)
		}
		unready(&o.Pods[0], started, corev1.ContainerStatus{})
		o.Object.Status = judged(t, o, options())
	}
}

func TestCardAndDevicesComeFromThePod(t *testing.T) {
	t.Parallel()
	opts := options()
	opts.GPU.Mode = GPUDevicePlugin
	o := settled(t, newService(), opts)
	if c := condition(t, judged(t, o, opts), v1alpha1.ConditionDevicesAllocated); c.Status != metav1.ConditionFalse {
		t.Errorf("no Pod has a card, and DevicesAllocated=%s", c.Status)
	}
	o.Pods[0].Annotations = merged(o.Pods[0].Annotations, map[string]string{v1alpha1.AnnotationCard: "GPU-7,GPU-8"})
	st := judged(t, o, opts)
	if c := condition(t, st, v1alpha1.ConditionDevicesAllocated); c.Status != metav1.ConditionTrue || st.Pods[0].Card != "GPU-7" {
		t.Errorf("DevicesAllocated=%s, card %q", c.Status, st.Pods[0].Card)
	}
}

func TestLongOutputIsCutToItsEnd(t *testing.T) {
	t.Parallel()
	got := lastLines(strings.Repeat("noise\n", 100) + strings.Repeat("x", 5000) + "the reason\n")
	if len(got) > mostBytes+len("…") || !strings.HasSuffix(got, "the reason") {
		t.Errorf("%d bytes that end with %q", len(got), got[max(0, len(got)-20):])
	}
}

// Judged again without news, a status stays as it is; and ready means ready.
func TestJudgeProperties(t *testing.T) {
	t.Parallel()
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	rapid.Check(t, func(rt *rapid.T) {
		o := drawWorld(rt)
		for i := range o.Pods {
			at := start().Add(-time.Duration(rapid.IntRange(0, 120).Draw(rt, "since")) * time.Second)
			switch rapid.SampledFrom([]string{"ready", "loading", "failed", "looping", "pull"}).Draw(rt, "engine") {
			case "loading":
				unready(&o.Pods[i], at, corev1.ContainerStatus{State: running})
			case "failed":
				unready(&o.Pods[i], at, failed(1, running))
			case "looping":
				unready(&o.Pods[i], at, failed(3, waiting("CrashLoopBackOff", "").State))
			case "pull":
				unready(&o.Pods[i], at, waiting("ErrImagePull", "denied"))
			}
		}
		first := judged(rt, o, options())
		o.Object.Status = first
		o.Now = o.Now.Add(time.Second)
		if second := judged(rt, o, options()); !reflect.DeepEqual(first, second) {
			rt.Fatalf("judged again, it is\n%+v\nand was\n%+v", second, first)
		}
		ready := condition(rt, first, v1alpha1.ConditionReady)
		if ready.Status == metav1.ConditionTrue && (first.ReadyReplicas < o.Object.Spec.Replicas || o.Object.Spec.Replicas == 0 || terminating(o.Object)) {
			rt.Fatalf("ready with %d of %d replicas, deleted %v", first.ReadyReplicas, o.Object.Spec.Replicas, terminating(o.Object))
		}
		if first.ObservedGeneration != o.Object.Generation || first.ReadyReplicas > first.Replicas {
			rt.Fatalf("status %+v", first)
		}
	})
}
