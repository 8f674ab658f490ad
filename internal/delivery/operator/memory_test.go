package operator

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/delivery"
)

// Progress waits two seconds, once; whatever else there is to tell does not wait.
func TestMemoryHoldsProgress(t *testing.T) {
	t.Parallel()
	key, start := types.NamespacedName{Namespace: "n", Name: "demo"}, time.Unix(1_800_000_000, 0)
	m := newMemory()
	if got := m.hold(key, true, start); got != 0 {
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
		if got := m.hold(key, step.progress, start.Add(step.at)); got != step.want {
			t.Errorf("step %d: held for %s, want %s", i, got, step.want)
		}
	}
	other := types.NamespacedName{Namespace: "n", Name: "other"}
	m.meet(other, "u3")
	if got := m.hold(other, true, start.Add(2300*time.Millisecond)); got != 2040*time.Millisecond {
		t.Errorf("beside another one it is held for %s", got)
	}
	m.forget(key)
	m.forget(key)
	m.meet(other, "u4") // another one of its name
	if len(m.objects) != 1 || m.held != 0 || !m.meet(key, "u2") {
		t.Errorf("what is forgotten is remembered: %+v", m)
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
