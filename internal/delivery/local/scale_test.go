package local

import (
	"errors"
	"fmt"
	"testing"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/modelspec"
)

func between(least, most int) func(*modelspec.Model) {
	return func(m *modelspec.Model) { m.Replicas = modelspec.Replicas{Min: least, Max: most} }
}

func (b *bench) scale(ref budget.Ref, from, to int) error {
	return b.target.Scale(b.t.Context(), ref, delivery.ScalingStep{At: b.target.now(), From: from, To: to, Reason: "Test"})
}

func (b *bench) runs(d delivery.Desired, n int) {
	b.t.Helper()
	b.until(d, fmt.Sprintf("%d replicas", n), func(s delivery.Status) bool { return s.Ready == n && s.Processes() == n })
}

// TestScale: what runs is the lesser of what is asked for and what is paid
// for, it survives a restart, and only who saw the present count changes it.
func TestScale(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := desired("team-a", "elastic", between(0, 3), withMemory(1000))
	b.apply(d)
	b.runs(d, 1)
	if st := b.status(d); st.Asked != 1 || st.Funded != 1 || st.Asleep() {
		t.Errorf("before anybody scales: %+v", st)
	}
	d.Generation, d.Funded = 2, 2
	b.apply(d)
	if st := b.status(d); st.Asked != 1 || st.Funded != 2 || st.Wanted != 1 {
		t.Errorf("more are paid for, and nobody asked: %+v", st)
	}
	d.Generation, d.Funded = 3, 1
	b.apply(d)
	if err := b.scale(d.Ref, 1, 3); err != nil {
		t.Fatal(err)
	}
	if st := b.status(d); st.Asked != 3 || st.Wanted != 1 {
		t.Errorf("one is paid for: asked %d, wanted %d", st.Asked, st.Wanted)
	}
	d.Generation, d.Funded = 4, 3
	b.apply(d)
	b.runs(d, 3)
	if err := b.scale(d.Ref, 1, 0); !errors.Is(err, delivery.ErrScaled) {
		t.Errorf("who did not see the present count: %v", err)
	}
	if err := b.scale(d.Ref, 3, 0); err != nil {
		t.Fatal(err)
	}
	b.runs(d, 0)
	st := b.status(d)
	if !st.Asleep() || st.Reason != delivery.ScaledToZero || st.Funded != 3 || len(st.Scaling) != 2 || st.Scaling[1].To != 0 || len(st.Last) != 3 {
		t.Errorf("asleep: %+v", st)
	}
	b.stop(b.target)
	b.start()
	if st := b.status(d); !st.Asleep() || st.Processes() != 0 || len(st.Scaling) != 2 {
		t.Errorf("after a restart: %+v", st)
	}
	if err := b.scale(d.Ref, 0, 2); err != nil {
		t.Fatal(err)
	}
	b.runs(d, 2)
	d.Generation, d.Model.Replicas.Min = 5, 3
	b.apply(d) // no room between min and max any more: what is paid for runs
	b.runs(d, 3)
	if err := b.scale(budget.Ref{Tenant: "team-b", ID: "elastic"}, 3, 1); !errors.Is(err, budget.ErrNotFound) {
		t.Errorf("somebody else's: %v", err)
	}
}

// TestScalingStepsAreBounded: the oldest are forgotten, the caller's are not touched.
func TestScalingStepsAreBounded(t *testing.T) {
	t.Parallel()
	var steps []delivery.ScalingStep
	for i := range delivery.MaxScalingSteps + 5 {
		before := len(steps)
		next := delivery.Remember(steps, delivery.ScalingStep{From: i, To: i + 1})
		if len(steps) != before {
			t.Fatal("the caller's steps changed")
		}
		steps = next
	}
	if len(steps) != delivery.MaxScalingSteps || steps[0].From != 5 || steps[len(steps)-1].To != delivery.MaxScalingSteps+5 {
		t.Errorf("%d steps, from %d to %d", len(steps), steps[0].From, steps[len(steps)-1].To)
	}
}
