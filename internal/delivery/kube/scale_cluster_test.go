//go:build cluster

package kube_test

import (
	"errors"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
)

// C045: the number of replicas is its writer's, through the scale subresource;
// deliveries keep it, its history stands in the status, and who did not see
// the present count changes nothing.
func TestScale(t *testing.T) {
	t.Parallel()
	b := setup(t, server, server.REST)
	d := desired(b, "demo")
	d.Model.Replicas.Max, d.Funded = 4, 3
	b.apply(d)
	step := func(from, to int) error {
		return b.target.Scale(t.Context(), d.Ref, delivery.ScalingStep{At: time.Now(), From: from, To: to, Reason: "Test", Message: "because"})
	}
	b.must(step(3, 1))
	if ms := b.stored(d.Name); ms.Spec.Replicas != 1 || ms.Spec.Budget.FundedReplicas != 3 || len(ms.Status.ScalingHistory) != 1 || ms.Status.ScalingHistory[0].From != 3 || ms.Status.ScalingHistory[0].Message != "because" {
		t.Fatalf("spec %+v, status %+v", ms.Spec, ms.Status)
	}
	if err := step(3, 2); !errors.Is(err, delivery.ErrScaled) {
		t.Errorf("who did not see the present count: %v", err)
	}
	// As a HorizontalPodAutoscaler, or a person with kubectl scale.
	ms := b.stored(d.Name)
	b.must(b.api.SubResource("scale").Update(t.Context(), ms, client.WithSubResourceBody(&autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 0}})))
	for generation := range int64(3) {
		d.Generation += generation
		d.Model.Traffic.Weight++
		b.apply(d)
		if ms := b.stored(d.Name); ms.Spec.Replicas != 0 {
			t.Fatalf("a delivery set the replicas to %d", ms.Spec.Replicas)
		}
	}
	b.must(step(0, 0)) // only remembers
	if ms := b.stored(d.Name); ms.Spec.Replicas != 0 || len(ms.Status.ScalingHistory) != 2 {
		t.Errorf("spec %+v, status %+v", ms.Spec, ms.Status)
	}
	if err := b.target.Scale(t.Context(), budget.Ref{Tenant: "team-b", ID: "demo"}, delivery.ScalingStep{}); !errors.Is(err, budget.ErrNotFound) {
		t.Errorf("somebody else's: %v", err)
	}
}
