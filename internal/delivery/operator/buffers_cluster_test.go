//go:build cluster

package operator_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/delivery/operator"
)

// buffersOf keeps room in the world's namespace with an installation's rights.
func (w *world) buffersOf(ledger string) *operator.Buffers {
	w.t.Helper()
	c, err := client.New(w.counted(operatorConfig()), client.Options{Scheme: w.Scheme()})
	w.must(err)
	b, err := operator.NewBuffers(operator.BufferOptions{
		Client: c, Namespace: w.ns, Ledger: ledger, Image: "pause:1", PriorityClass: w.ns + "-buffer",
		GPU: operator.GPU{Mode: operator.GPUDevicePlugin, SchedulerName: "cards"}, Logger: slog.New(slog.DiscardHandler),
	})
	w.must(err)
	return b
}

// TestRoomIsKept: a Deployment for each class, whose Pods ask for what a
// replica would and come after everybody; changed and taken away by whoever
// made it, left alone by everybody else, and silent at rest.
func TestRoomIsKept(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: w.ns + "-buffer"}, Value: -1000, PreemptionPolicy: ptr.To(corev1.PreemptNever)}
	w.must(w.Create(w.ctx, class))
	t.Cleanup(func() { _ = w.Delete(w.ctx, class) })
	b := w.buffersOf("ledger-1")
	want := []operator.Buffer{
		{Pool: "default", Class: "llm", Count: 2, GPU: v1alpha1.GPU{MemoryMiB: 8000, Count: 2}},
		{Pool: "default", Class: "vision", GPU: v1alpha1.GPU{MemoryMiB: 100, Count: 1}}, // none now
	}
	have, err := b.Keep(w.ctx, want)
	if err != nil || !slices.Equal(have, []int{0, 0}) {
		t.Fatalf("have %v, %v", have, err)
	}
	d := w.buffers()
	if len(d) != 1 || *d[0].Spec.Replicas != 2 || d[0].Labels[v1alpha1.LabelManagedBy] != v1alpha1.ManagedBy {
		t.Fatalf("Deployments are %+v", d)
	}
	var pods corev1.PodList
	w.eventually("two Pods", func() string {
		w.must(w.List(w.ctx, &pods, client.InNamespace(w.ns), client.HasLabels{v1alpha1.LabelBuffer}))
		if len(pods.Items) != 2 {
			return fmt.Sprintf("there are %d Pods", len(pods.Items))
		}
		return ""
	})
	p := pods.Items[0]
	units := p.Spec.Containers[0].Resources.Limits["modeldock.io/gpu-memory"]
	if p.Annotations[v1alpha1.AnnotationGPUMemory] != "8000" || p.Annotations[v1alpha1.AnnotationGPUCount] != "2" || units.Value() != 62 || p.Spec.SchedulerName != "cards" {
		t.Errorf("a Pod asks for %v and %v of scheduler %s", p.Annotations, units, p.Spec.SchedulerName)
	}
	if *p.Spec.Priority != -1000 || *p.Spec.TerminationGracePeriodSeconds != 0 || *p.Spec.AutomountServiceAccountToken || p.Annotations[v1alpha1.AnnotationBuffer] != "default/llm" {
		t.Errorf("a Pod comes before others, or ends late: %+v", p.Spec)
	}
	w.must(w.SubResource("binding").Create(w.ctx, &p, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "node-1"}}))
	if have, err = b.Keep(w.ctx, want); err != nil || have[0] != 1 {
		t.Errorf("one Pod has its cards: have %v, %v", have, err)
	}
	before := w.written()
	if _, err = b.Keep(w.ctx, want); err != nil || len(w.written()) != len(before) {
		t.Errorf("with nothing to change it wrote %v, %v", w.written()[len(before):], err)
	}
	_, err = w.buffersOf("ledger-2").Keep(w.ctx, nil)
	w.must(err)
	want[0].Count, want[0].GPU.MemoryMiB = 3, 4000
	_, err = b.Keep(w.ctx, want)
	w.must(err)
	changed := w.buffers()
	if len(changed) != 1 || changed[0].UID != d[0].UID || *changed[0].Spec.Replicas != 3 || changed[0].Spec.Template.Annotations[v1alpha1.AnnotationGPUMemory] != "4000" {
		t.Errorf("after a change: %+v", changed)
	}
	_, err = b.Keep(w.ctx, nil)
	w.must(err)
	w.eventually("that no Pod is left", func() string {
		w.must(w.List(w.ctx, &pods, client.InNamespace(w.ns), client.HasLabels{v1alpha1.LabelBuffer}))
		for i := range pods.Items {
			// There is no kubelet: what was bound ends by the tester's hand.
			_ = w.Delete(w.ctx, &pods.Items[i], client.GracePeriodSeconds(0))
		}
		return strings.Repeat("a Pod is there ", len(pods.Items)+len(w.buffers()))
	})
	w.foreign(d[0].Name)
	if _, err = b.Keep(w.ctx, want); err == nil || !strings.Contains(err.Error(), "not ours") {
		t.Errorf("a Deployment of the same name was taken over: %v", err)
	}
}

// buffers are the Deployments that keep room.
func (w *world) buffers() []appsv1.Deployment {
	w.t.Helper()
	var all appsv1.DeploymentList
	w.must(w.List(w.ctx, &all, client.InNamespace(w.ns), client.HasLabels{v1alpha1.LabelBuffer}))
	return all.Items
}

// foreign makes a Deployment of somebody else.
func (w *world) foreign(name string) {
	w.t.Helper()
	labels := map[string]string{"app": "theirs"}
	w.must(w.Create(w.ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](0), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
		},
	}))
}

func TestNoRoomIsKeptWhereNothingIsDisplaced(t *testing.T) {
	t.Parallel()
	if _, err := operator.NewBuffers(operator.BufferOptions{GPU: operator.GPU{Mode: operator.GPUDRA}}); err == nil || !strings.Contains(err.Error(), "devicePlugin") {
		t.Errorf("got %v", err)
	}
}
