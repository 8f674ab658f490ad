//go:build cluster

package operator_test

import (
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/operator"
)

// A ModelService becomes a Deployment and a headless Service, and is ready
// once its replica answers.
func TestChildrenAreMadeAndServe(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	m := w.created("demo")
	w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionFalse, delivery.WaitingForNode)
	pods := w.serve("demo", 1)
	w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionTrue, delivery.Available)

	d := w.deployment("demo")
	if owner := metav1.GetControllerOf(d); owner == nil || owner.UID != m.UID {
		t.Errorf("the Deployment's owner is %v, want %s", owner, m.UID)
	}
	for _, f := range d.ManagedFields {
		if f.Subresource == "" && f.Manager != operator.FieldManager && f.Manager != "kube-controller-manager" {
			t.Errorf("%s wrote the Deployment", f.Manager)
		}
	}
	s := &corev1.Service{}
	w.must(w.Get(w.ctx, client.ObjectKeyFromObject(m), s))
	if s.Spec.ClusterIP != corev1.ClusterIPNone || s.Spec.Selector[v1alpha1.LabelUID] != string(m.UID) {
		t.Errorf("the Service is not headless or selects %v", s.Spec.Selector)
	}
	st := w.object("demo").Status
	if st.Replicas != 1 || st.ReadyReplicas != 1 || len(st.Pods) != 1 {
		t.Fatalf("status: %+v", st)
	}
	if p := st.Pods[0]; p.UID != string(pods[0].UID) || p.Node != node || p.ReadySince == nil || p.Reason != "Available" || p.Phase != corev1.PodRunning {
		t.Errorf("pod in the status: %+v", p)
	}
	for kind, want := range map[string]metav1.ConditionStatus{
		v1alpha1.ConditionChildrenApplied: metav1.ConditionTrue, v1alpha1.ConditionScheduled: metav1.ConditionTrue,
		v1alpha1.ConditionEngineReady: metav1.ConditionTrue, v1alpha1.ConditionOwnershipConflict: metav1.ConditionFalse,
		v1alpha1.ConditionStalled: metav1.ConditionFalse,
	} {
		w.waitCondition("demo", kind, want, delivery.Available)
	}
	w.waitCondition("demo", v1alpha1.ConditionDevicesAllocated, metav1.ConditionUnknown, operator.NotTracked)
}

// The scaler writes the scale subresource; no more run than are funded.
func TestNoMoreReplicasThanFunded(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	m := w.created("demo", func(m *v1alpha1.ModelService) { m.Spec.Budget.FundedReplicas = 2 })
	scale := func(n int32) {
		t.Helper()
		w.must(w.SubResource("scale").Update(w.ctx, m, client.WithSubResourceBody(&autoscalingv1.Scale{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: m.Name}, Spec: autoscalingv1.ScaleSpec{Replicas: n},
		})))
	}
	w.serve("demo", 1)
	w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionTrue, delivery.Available)

	scale(3)
	w.serve("demo", 2)
	c := w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionFalse, delivery.BudgetBlocked)
	if want := "3 replicas are wanted, 2 are funded and ready"; c.Message != want {
		t.Errorf("message %q, want %q", c.Message, want)
	}
	got := &autoscalingv1.Scale{}
	w.must(w.SubResource("scale").Get(w.ctx, m, got))
	if got.Status.Replicas != 2 || got.Status.Selector == "" {
		t.Errorf("scale: %+v", got.Status)
	}

	scale(0)
	w.eventually("scale to zero", func() string {
		for _, p := range w.pods("demo") {
			if p.DeletionTimestamp == nil {
				return p.Name + " is still wanted"
			}
		}
		return ""
	})
	for _, p := range w.pods("demo") {
		w.end(&p)
	}
	w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionFalse, delivery.ScaledToZero)
	w.eventually("no replica in the status", func() string {
		if st := w.object("demo").Status; st.Replicas != 0 || len(st.Pods) != 0 {
			return "there are some"
		}
		return ""
	})
}
