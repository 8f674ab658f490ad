package budget_test

import (
	"math"
	"testing"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/modelspec"
)

// What no submit can have asked for needs more than any quota has: a product
// that overflows would be admitted as a small or a negative one.
func TestNeedNeverOverflows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cost int64
		least,
		want int64
	}{
		{1, 0, 1},
		{budget.MaxCost, modelspec.MaxReplicas, budget.MaxCost * modelspec.MaxReplicas},
		{1, modelspec.MaxReplicas + 1, budget.MaxCap + 1},
		{1, math.MaxInt64, budget.MaxCap + 1},
		{budget.MaxCost, math.MaxInt64, budget.MaxCap + 1},
		{math.MaxInt64, 2, budget.MaxCap + 1},
		{-1, 2, budget.MaxCap + 1},
	} {
		m := modelspec.Model{Replicas: modelspec.Replicas{Min: int(c.least)}}
		if got := (budget.Submission{Cost: c.cost, Model: m}).Need(); got != c.want {
			t.Errorf("a submit of cost %d with %d replicas needs %d, want %d", c.cost, c.least, got, c.want)
		}
		if got := (budget.Reservation{Cost: c.cost, Model: m}).Need(); got != c.want {
			t.Errorf("a request of cost %d with %d replicas needs %d, want %d", c.cost, c.least, got, c.want)
		}
	}
	if got := (budget.Reservation{Cost: budget.MaxCost, Funded: math.MaxInt64, Held: 1}).Surplus(); got >= 0 {
		t.Errorf("one slot is %d more than replicas without end take", got)
	}
}
