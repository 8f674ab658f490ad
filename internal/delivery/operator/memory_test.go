package operator

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/delivery"
)

// Progress waits two seconds, once; whatever else there is to tell does not wait.
func TestMemoryHoldsProgress(t *testing.T) {
	t.Parallel()
	key, start := types.NamespacedName{Namespace: "n", Name: "demo"}, time.Unix(1_800_000_000, 0)
	m := newMemory()
	if got := m.hold(key, true, true, start); got != 0 {
		t.Errorf("an object that is not known is held for %s", got)
	}
	if !m.meet(key, "u1") || m.meet(key, "u1") || !m.meet(key, "u2") {
		t.Error("an object is new once, and another one of its name again")
	}
	for i, step := range []struct {
		progress bool
		at, want time.Duration
	}{
		{true, 0, 2 * time.Second},
		{true, 500 * time.Millisecond, 1500 * time.Millisecond},
		{true, 2 * time.Second, 0},
		{true, 2100 * time.Millisecond, 2 * time.Second}, // later progress
		{false, 2200 * time.Millisecond, 0},              // better news
		{true, 2300 * time.Millisecond, 2 * time.Second},
	} {
		if got := m.hold(key, step.progress, true, start.Add(step.at)); got != step.want {
			t.Errorf("step %d: held for %s, want %s", i, got, step.want)
		}
	}
	other := types.NamespacedName{Namespace: "n", Name: "other"}
	m.meet(other, "u3")
	if got := m.hold(other, true, true, start.Add(2300*time.Millisecond)); got != 2100*time.Millisecond {
		t.Errorf("beside another one it is held for %s", got)
	}
	m.forget(key)
	m.forget(key)
	m.meet(other, "u4") // another one of its name
	if len(m.objects) != 1 || m.held != 0 || !m.meet(key, "u2") {
		t.Errorf("what is forgotten is remembered: %+v", m)
	}
}

// The last of many that start together waits as long as the first.
func TestTheLastOfManyIsHeldAsLong(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_800_000_000, 0)
	m := newMemory()
	var keys []types.NamespacedName
	for i := range 11 {
		key := types.NamespacedName{Namespace: "n", Name: fmt.Sprint("demo-", i)}
		keys = append(keys, key)
		m.meet(key, types.UID(key.Name))
		m.hold(key, true, true, start)
	}
	last := keys[len(keys)-1]
	for _, key := range keys[:len(keys)-1] {
		m.hold(key, false, true, start.Add(time.Second)) // it is Ready
	}
	if got := m.hold(last, true, true, start.Add(time.Second)); got != 2*time.Second {
		t.Errorf("it is held for %s more, want 2s of 3s", got)
	}
	if got := m.hold(last, true, true, start.Add(3*time.Second)); got != 0 {
		t.Errorf("it is held for %s more, want to be told of", got)
	}
	if got := m.hold(last, true, true, start.Add(4*time.Second)); got != 2*time.Second {
		t.Errorf("later, when it is alone, it is held for %s", got)
	}
}

func TestOnTheWay(t *testing.T) {
	t.Parallel()
	status := func(ready metav1.ConditionStatus, reason delivery.Reason, replicas int32) v1alpha1.ModelServiceStatus {
		return v1alpha1.ModelServiceStatus{Replicas: replicas, Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready, Reason: string(reason)}}}
	}
	failed := status(metav1.ConditionFalse, delivery.Loading, 1)
	failed.LastFailure = &v1alpha1.Failure{Reason: "ModelLoadFailed"}
	stalled := status(metav1.ConditionFalse, delivery.Loading, 1)
	stalled.Conditions = append(stalled.Conditions, metav1.Condition{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue})
	loading := status(metav1.ConditionFalse, delivery.Loading, 0)
	for name, c := range map[string]struct {
		before, after v1alpha1.ModelServiceStatus
		want          bool
	}{
		"the first status":     {v1alpha1.ModelServiceStatus{}, loading, true},
		"a Pod more":           {loading, status(metav1.ConditionFalse, delivery.Loading, 1), true},
		"waits for a node":     {loading, status(metav1.ConditionFalse, delivery.WaitingForNode, 1), true},
		"nothing new":          {loading, loading, false},
		"ready":                {loading, status(metav1.ConditionTrue, delivery.Available, 1), false},
		"ready no more":        {status(metav1.ConditionTrue, delivery.Available, 1), loading, false},
		"a reason to act upon": {loading, status(metav1.ConditionFalse, delivery.NoFragmentFits, 1), false},
		"a failure":            {loading, failed, false},
		"stalled":              {loading, stalled, false},
		"stalled no more":      {stalled, loading, false},
	} {
		if got := onTheWay(c.before, c.after); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// What the operator wrote a moment ago counts before the watch shows it, and
// no longer than that.
func TestMemoryKnowsWhatWasWritten(t *testing.T) {
	t.Parallel()
	key := types.NamespacedName{Namespace: "n", Name: "demo"}
	version := func(uid types.UID, v string, ready int32) *v1alpha1.ModelService {
		return &v1alpha1.ModelService{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "demo", UID: uid, ResourceVersion: v}, Status: v1alpha1.ModelServiceStatus{ReadyReplicas: ready},
		}
	}
	m := newMemory()
	m.written(key, "1", version("u1", "2", 1)) // of an object that was never seen
	m.meet(key, "u1")
	if m.echo(key, "2") || m.newest(key, version("u1", "1", 0)).Status.ReadyReplicas != 0 {
		t.Error("an object that is not known has a status")
	}
	m.written(key, "1", version("u1", "2", 1))
	if got := m.newest(key, version("u1", "1", 0)); got.ResourceVersion != "2" || got.Status.ReadyReplicas != 1 {
		t.Errorf("the watch is behind, and its version counts: %+v", got)
	}
	if !m.echo(key, "2") || m.echo(key, "3") {
		t.Error("the operator does not know its own write, or takes another's for it")
	}
	if got := m.newest(key, version("u1", "3", 7)); got.Status.ReadyReplicas != 7 {
		t.Errorf("somebody else's later version is not believed: %+v", got)
	}
	if got := m.newest(key, version("u1", "1", 0)); got.Status.ReadyReplicas != 0 {
		t.Error("what was written counts after the watch has shown more")
	}
	m.written(key, "3", version("u1", "4", 1))
	m.meet(key, "u2")
	if got := m.newest(key, version("u2", "3", 0)); got.UID != "u2" || m.echo(key, "4") {
		t.Errorf("another object of the name has the status of the one before: %+v", got)
	}
}

// The operator looks again where somebody else changed something.
func TestOnlyOthersNewsIsNews(t *testing.T) {
	t.Parallel()
	m, key := newMemory(), types.NamespacedName{Namespace: "n", Name: "demo"}
	old := &v1alpha1.ModelService{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "demo", UID: "u1", ResourceVersion: "1", Generation: 1}}
	m.meet(key, "u1")
	next := old.DeepCopy()
	next.ResourceVersion = "2"
	if !othersNews(m).Update(event.UpdateEvent{ObjectOld: old, ObjectNew: next}) || newMetadata().Update(event.UpdateEvent{ObjectOld: old, ObjectNew: next}) {
		t.Error("a status of somebody else is news, and one of which metadata alone is kept is none")
	}
	m.written(key, "1", next.DeepCopy())
	if othersNews(m).Update(event.UpdateEvent{ObjectOld: old, ObjectNew: next}) {
		t.Error("the operator's own status is news to it")
	}
	for what, change := range map[string]func(*v1alpha1.ModelService){
		"generation": func(o *v1alpha1.ModelService) { o.Generation = 2 }, "label": func(o *v1alpha1.ModelService) { o.Labels = map[string]string{"a": "b"} },
		"annotation": func(o *v1alpha1.ModelService) { o.Annotations = map[string]string{"a": "b"} }, "finalizer": func(o *v1alpha1.ModelService) { o.Finalizers = []string{"f"} },
		"deletion": func(o *v1alpha1.ModelService) { o.DeletionTimestamp = &metav1.Time{} }, "UID": func(o *v1alpha1.ModelService) { o.UID = "u2" },
		"owner": func(o *v1alpha1.ModelService) { o.OwnerReferences = []metav1.OwnerReference{{Name: "x"}} },
	} {
		changed := next.DeepCopy()
		change(changed)
		// A watch that was interrupted tells of both at once.
		if e := (event.UpdateEvent{ObjectOld: old, ObjectNew: changed}); !othersNews(m).Update(e) || !newMetadata().Update(e) {
			t.Errorf("%s: a change beside the operator's own status is no news", what)
		}
	}
}

// Of a Deployment, what its Pods tell anyway is no news; what only it tells is.
func TestWhatADeploymentTells(t *testing.T) {
	t.Parallel()
	old := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "demo", UID: "u1", Generation: 1}, Status: appsv1.DeploymentStatus{ObservedGeneration: 1}}
	for what, c := range map[string]struct {
		change func(*appsv1.Deployment)
		news   bool
	}{
		"counts": {func(d *appsv1.Deployment) { d.Status.ReadyReplicas, d.Status.UpdatedReplicas = 1, 1 }, false},
		"progress": {func(d *appsv1.Deployment) {
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Message: "it goes on"}}
		}, false},
		"available": {func(d *appsv1.Deployment) {
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}}
		}, false},
		"refused": {func(d *appsv1.Deployment) {
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "no quota"}}
		}, true},
		"stuck": {func(d *appsv1.Deployment) {
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"}}
		}, true},
		"generation": {func(d *appsv1.Deployment) { d.Generation = 2 }, true},
		"unseen":     {func(d *appsv1.Deployment) { d.Status.ObservedGeneration = 0 }, true},
		"revision":   {func(d *appsv1.Deployment) { d.Annotations = map[string]string{revisionAnnotation: "2"} }, true},
		"deletion":   {func(d *appsv1.Deployment) { d.DeletionTimestamp = &metav1.Time{} }, true},
	} {
		changed := old.DeepCopy()
		c.change(changed)
		if got := newDeployment(newMemory()).Update(event.UpdateEvent{ObjectOld: old, ObjectNew: changed}); got != c.news {
			t.Errorf("%s: news %v, want %v", what, got, c.news)
		}
	}
}

// While the progress of an object is held, its children's way to readiness needs
// no look; what is told at once does, and so does everything once a Pod is ready.
func TestWhatIsNewsOfAHeldObject(t *testing.T) {
	t.Parallel()
	m, service := newMemory(), newService()
	key := types.NamespacedName{Namespace: service.Namespace, Name: service.Name}
	world := settled(t, service, options())
	set, started := &world.ReplicaSets[0], world.Pods[0]
	set.Labels = labelsOf(service)
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := started.DeepCopy()
		change(p)
		return p
	}
	waiting := func(reason string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			unready(p, start(), corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}})
		}
	}
	deployment := func(change func(*appsv1.Deployment)) func() bool {
		return func() bool {
			changed := world.Deployment.DeepCopy()
			change(changed)
			return newDeployment(m).Update(event.UpdateEvent{ObjectOld: world.Deployment, ObjectNew: changed})
		}
	}
	news := map[string]struct {
		of   func() bool
		held bool // it is news of a held object, too
	}{
		"the Service":    {func() bool { return newChild(m).Create(event.CreateEvent{Object: world.Service}) }, false},
		"the ReplicaSet": {func() bool { return newChild(m).Create(event.CreateEvent{Object: set}) }, false},
		"the Service's change": {func() bool {
			return newChild(m).Update(event.UpdateEvent{ObjectOld: world.Service, ObjectNew: world.Service})
		}, true},
		"a child's end":    {func() bool { return newChild(m).Delete(event.DeleteEvent{Object: set}) }, true},
		"a Pod's end":      {func() bool { return newPod(m).Delete(event.DeleteEvent{Object: &started}) }, true},
		"its revision":     {deployment(func(d *appsv1.Deployment) { d.Annotations[revisionAnnotation] = "7" }), false},
		"that it was seen": {deployment(func(d *appsv1.Deployment) { d.Status.ObservedGeneration = 0 }), false},
		"its spec":         {deployment(func(d *appsv1.Deployment) { d.Generation++ }), true},
		"its labels":       {deployment(func(d *appsv1.Deployment) { d.Labels["a"] = "b" }), true},
		"no quota": {deployment(func(d *appsv1.Deployment) {
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "no quota"}}
		}), true},
	}
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		held   bool
	}{
		"a Pod without a node":      {func(p *corev1.Pod) { p.Spec.NodeName, p.Status = "", corev1.PodStatus{} }, false},
		"a Pod on its node":         {func(p *corev1.Pod) { p.Status = corev1.PodStatus{} }, false},
		"a Pod that is being made":  {waiting("ContainerCreating"), false},
		"a Pod that loads":          {func(p *corev1.Pod) { unready(p, start(), corev1.ContainerStatus{}) }, false},
		"a ready Pod":               {func(*corev1.Pod) {}, true},
		"a Pod that ends":           {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }, true},
		"a Pod that has failed":     {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, true},
		"a Pod without an image":    {waiting("ErrImagePull"), true},
		"a Pod that cannot be made": {waiting("CreateContainerError"), true},
		"a Pod whose engine crashed": {func(p *corev1.Pod) {
			unready(p, start(), corev1.ContainerStatus{RestartCount: 1, LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}})
		}, true},
		"a Pod that fits on no card": {func(p *corev1.Pod) {
			p.Spec.NodeName = ""
			p.Status = corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no fragment is large enough"}}}
		}, true},
	} {
		p := pod(c.change)
		news[name] = struct {
			of   func() bool
			held bool
		}{func() bool { return newPod(m).Update(event.UpdateEvent{ObjectOld: &started, ObjectNew: p}) }, c.held}
		news[name+", made"] = struct {
			of   func() bool
			held bool
		}{func() bool { return newPod(m).Create(event.CreateEvent{Object: p}) }, c.held}
	}
	check := func(when string, all bool) {
		t.Helper()
		for what, n := range news {
			if got := n.of(); got != (all || n.held) {
				t.Errorf("%s, %s: news %t", when, what, got)
			}
		}
	}
	check("not known", true)
	m.meet(key, service.UID)
	check("met", true)
	m.hold(key, true, true, start())
	check("held", false)
	m.hold(key, true, false, start())
	check("with a ready Pod", true)
	if got := m.hold(key, true, false, start()); got != soon {
		t.Errorf("what happened during a look that found a ready Pod is looked at after %s", got)
	}
	m.meet(key, service.UID)
	if got := m.hold(key, true, false, start()); got != holdProgress {
		t.Errorf("nothing happened during a look that found a ready Pod, and the next one comes after %s", got)
	}
	m.hold(key, true, true, start())
	m.hold(key, false, true, start())
	check("told", true)
}
