//go:build cluster

package operator_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/operator"
)

// A change that no Pod can see replaces no Pod.
func TestChangesBesideThePodRollNothing(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.created("demo")
	pod := w.serve("demo", 1)[0]
	w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionTrue, delivery.Available)
	revision := w.deployment("demo").Annotations["deployment.kubernetes.io/revision"]
	edit(w, "demo", &v1alpha1.ModelService{}, func(m *v1alpha1.ModelService) {
		m.Spec.Traffic.Weight, m.Spec.Cache = 5, v1alpha1.Cache{Enabled: true, TTLSeconds: 60}
		m.Spec.ColdStart.MaxWaiting, m.Spec.Scaling.Max, m.Spec.Workload = 77, 9, "batch"
		m.Spec.Replicas, m.Spec.Budget.FundedReplicas = 2, 2
		m.Labels = map[string]string{"x": "y"}
	})
	w.serve("demo", 2)
	w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionTrue, delivery.Available)
	if got := w.deployment("demo").Annotations["deployment.kubernetes.io/revision"]; got != revision {
		t.Errorf("the Deployment is at revision %s, was %s", got, revision)
	}
	for _, p := range w.living("demo", 2) {
		if p.UID == pod.UID {
			return
		}
	}
	t.Errorf("Pod %s was replaced", pod.Name)
}

// During a rollout the object is not ready: replicas of the generation before
// do not count. Without a spare card one ends before the next starts.
func TestRolloutWithoutASpareCardEndsOneFirst(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.created("demo")
	old := w.serve("demo", 1)[0]
	w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionTrue, delivery.Available)
	edit(w, "demo", &v1alpha1.ModelService{}, func(m *v1alpha1.ModelService) { m.Spec.Engine.Image = "modeldock:next" })
	w.eventually("the end of the old replica", func() string {
		for _, p := range w.pods("demo") {
			if p.UID == old.UID && p.DeletionTimestamp != nil {
				return ""
			}
		}
		return "it still serves"
	})
	w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionFalse, delivery.WaitingForNode)
	w.end(&old)
	w.serve("demo", 1)
	w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionTrue, delivery.Available)
}

// With a spare card the old replica serves until the new one does.
func TestRolloutWithASpareCardSurgesFirst(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *operator.Options) { o.SpareCard = func(*v1alpha1.ModelService) bool { return true } })
	w.created("demo")
	old := w.serve("demo", 1)[0]
	w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionTrue, delivery.Available)
	edit(w, "demo", &v1alpha1.ModelService{}, func(m *v1alpha1.ModelService) { m.Spec.Engine.Args = []string{"--ttft", "1ms"} })
	pods := w.living("demo", 2)
	c := w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionFalse, delivery.WaitingForNode)
	if st := w.object("demo").Status; st.ReadyReplicas != 0 || st.Replicas != 2 {
		t.Errorf("%d of %d replicas count as ready (%s); the old one is of an earlier generation", st.ReadyReplicas, st.Replicas, c.Message)
	}
	for i := range pods {
		if pods[i].UID != old.UID {
			w.bind(&pods[i])
			w.tell(&pods[i], false, running())
			c = w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionFalse, delivery.Loading)
			if !strings.Contains(c.Message, "1 of an earlier one still serve") {
				t.Errorf("message %q does not say that the old replica serves", c.Message)
			}
			w.tell(&pods[i], true, running())
		}
	}
	w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionTrue, delivery.Available)
}
