//go:build cluster

package operator_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/delivery"
)

// The reason is the first true cause, from what scheduler and kubelet say, and
// it goes when the cause does.
func TestReasonIsTheFirstTrueCause(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.created("demo")
	p := &w.living("demo", 1)[0]

	setPodCondition(p, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable",
		Message: "0/3 nodes are available: largest fragment 3812 MiB < 4096 MiB on node gpu-3.",
	})
	w.must(w.Status().Update(w.ctx, p))
	c := w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionFalse, delivery.NoFragmentFits)
	w.waitCondition("demo", v1alpha1.ConditionScheduled, metav1.ConditionFalse, delivery.NoFragmentFits)
	if !strings.Contains(c.Message, "3812 MiB") || !strings.Contains(c.Message, p.Name) {
		t.Errorf("message %q has neither the figure nor the Pod", c.Message)
	}

	w.bind(p)
	w.tell(p, false, corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "Back-off pulling image: manifest unknown"}}})
	c = w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionFalse, delivery.ImagePullFailed)
	if !strings.Contains(c.Message, "manifest unknown") {
		t.Errorf("message %q does not repeat the registry's", c.Message)
	}

	w.tell(p, false, ended(1, 3, "loading\nCUDA out of memory"))
	c = w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionFalse, delivery.ModelLoadFailed)
	if !strings.Contains(c.Message, "CUDA out of memory") || !strings.Contains(c.Message, "exit code 3") {
		t.Errorf("message %q has neither the last lines nor the exit code", c.Message)
	}
	f := w.object("demo").Status.LastFailure
	if f == nil || f.ExitCode != 3 || f.Pod != p.Name || f.Reason != "ModelLoadFailed" || !strings.Contains(f.Message, "out of memory") || f.At.IsZero() {
		t.Errorf("last failure: %+v", f)
	}

	w.tell(p, true, running())
	w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionTrue, delivery.Available)
	w.tell(p, false, ended(2, 139, "segmentation fault"))
	w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionFalse, delivery.CrashLooping)
	w.waitEvent("demo", "CrashLooping")
	w.tell(p, true, running())
	w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionTrue, delivery.Available)
	if f := w.object("demo").Status.LastFailure; f == nil || f.ExitCode != 139 {
		t.Errorf("the last failure is %+v after the recovery, want the crash", f)
	}

	w.tell(p, false, running()) // the probe fails
	c = w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionFalse, delivery.Loading)
	if !strings.Contains(c.Message, "was ready") {
		t.Errorf("message %q does not say that it once was ready", c.Message)
	}
	if st := w.object("demo").Status; st.ReadyReplicas != 0 || st.Pods[0].ReadySince != nil {
		t.Errorf("status: %+v", st)
	}
}

// A quota or a policy that forbids Pods is told, not a deadline.
func TestRefusedPodsAreReported(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.must(w.Create(w.ctx, &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "tight"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, Min: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Gi")},
		}}},
	}))
	w.created("demo")
	c := w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionFalse, delivery.ReplicaFailure)
	if !strings.Contains(c.Message, "64Gi") {
		t.Errorf("message %q does not say what is refused", c.Message)
	}
}

// What no rollout can bring about is said at once and waits for a change.
func TestObjectThatCannotRunIsStalled(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.created("demo", func(m *v1alpha1.ModelService) { m.Spec.Engine.Kind, m.Spec.Model.Source = "vllm", "s3://bucket/model" })
	c := w.waitCondition("demo", v1alpha1.ConditionStalled, metav1.ConditionTrue, delivery.ModelLoadFailed)
	if !strings.Contains(c.Message, "s3://bucket/model") || !strings.Contains(c.Message, "hf://") {
		t.Errorf("message %q says neither what is wrong nor what to do", c.Message)
	}
	edit(w, "demo", &v1alpha1.ModelService{}, func(m *v1alpha1.ModelService) { m.Spec.Model.Source = "hf://org/model" })
	w.serve("demo", 1)
	w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionTrue, delivery.Available)
	edit(w, "demo", &v1alpha1.ModelService{}, func(m *v1alpha1.ModelService) { m.Spec.Model.Source = "s3://bucket/model" })
	w.waitCondition("demo", v1alpha1.ConditionStalled, metav1.ConditionTrue, delivery.ModelLoadFailed)
	// What runs is left running, but not beyond what is funded.
	w.living("demo", 1)
	edit(w, "demo", &v1alpha1.ModelService{}, func(m *v1alpha1.ModelService) { m.Spec.Budget.FundedReplicas = 0 })
	w.living("demo", 0)
	w.released("demo") // also an object that cannot run can be released
}
