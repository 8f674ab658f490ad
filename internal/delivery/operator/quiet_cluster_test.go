//go:build cluster

package operator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/operator"
)

// rest waits until the operator has looked at everything so many more times.
func (w *world) rest(rounds int64) {
	w.t.Helper()
	target := w.rounds.Load() + rounds
	w.eventually(fmt.Sprintf("%d reconciles", rounds), func() string {
		if n := w.rounds.Load(); n < target {
			return fmt.Sprintf("%d are missing", target-n)
		}
		return ""
	})
}

// An operator with nothing to do writes nothing, however often it looks, in
// whatever state the objects are.
func TestAtRestNothingIsWritten(t *testing.T) {
	t.Parallel()
	const ready = 4
	flips := false
	w := setup(t, func(o *operator.Options) {
		o.Workers = 1 // flips is not shared
		o.SpareCard = func(*v1alpha1.ModelService) bool { flips = !flips; return flips }
	})
	for i := range ready {
		w.created(fmt.Sprintf("ready-%d", i))
	}
	w.created("unplaced")
	w.created("sleeping", func(m *v1alpha1.ModelService) { m.Spec.Replicas = 0 })
	w.created("unfunded", func(m *v1alpha1.ModelService) { m.Spec.Budget.FundedReplicas = 0 })
	w.created("failing")
	w.created("unbuildable", func(m *v1alpha1.ModelService) { m.Spec.Engine.Kind = "vllm" })
	w.must(w.Create(w.ctx, foreignDeployment(w.ns, "taken")))
	w.created("taken")
	for i := range ready {
		w.serve(fmt.Sprintf("ready-%d", i), 1)
	}
	failing := w.living("failing", 1)
	w.bind(&failing[0])
	w.tell(&failing[0], false, ended(1, 3, "no such file"))
	for name, reason := range map[string]delivery.Reason{
		"ready-0": delivery.Available, "ready-1": delivery.Available, "ready-2": delivery.Available, "ready-3": delivery.Available,
		"sleeping": delivery.ScaledToZero, "unfunded": delivery.BudgetBlocked, "unplaced": delivery.WaitingForNode,
		"failing": delivery.ModelLoadFailed, "unbuildable": delivery.ModelLoadFailed, "taken": delivery.NotOwned,
	} {
		status := metav1.ConditionFalse
		if reason == delivery.Available {
			status = metav1.ConditionTrue
		}
		w.waitCondition(name, v1alpha1.ConditionReady, status, reason)
	}
	const objects = ready + 6
	w.rest(2 * objects) // what is still under way comes to its end

	before := len(w.written())
	d := &appsv1.Deployment{}
	w.must(w.Get(w.ctx, client.ObjectKey{Namespace: w.ns, Name: "ready-0"}, d))
	w.rest(6 * objects)
	if news := w.written()[before:]; len(news) > 0 {
		t.Errorf("%d writes at rest: %v", len(news), news)
	}
	after := w.deployment("ready-0")
	if after.ResourceVersion != d.ResourceVersion {
		t.Errorf("the Deployment changed from %s to %s", d.ResourceVersion, after.ResourceVersion)
	}

	// The count is real: a change is seen in it.
	edit(w, "ready-0", &corev1.Service{}, func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true })
	w.eventually("the write that restores the Service", func() string {
		news := w.written()[before:]
		if !slices.ContainsFunc(news, func(r string) bool { return strings.HasSuffix(r, "/services/ready-0") }) {
			return fmt.Sprint(news)
		}
		return ""
	})
}
