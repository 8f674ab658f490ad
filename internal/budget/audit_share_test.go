package budget_test

import (
	"math"
	"testing"

	"modeldock.io/internal/budget"
)

// All together keep no more than they may, those with little keep all, and
// nobody keeps more than another could have.
func TestAuditShare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		held []int64
		keep int64
		want int64
	}{
		{nil, 10, math.MaxInt64},
		{[]int64{3}, 10, math.MaxInt64},
		{[]int64{5, 5}, 10, math.MaxInt64},
		{[]int64{11}, 10, 10},
		{[]int64{100, 2, 4}, 10, 4},
		{[]int64{100, 100, 1}, 10, 4}, // one place stays empty
		{[]int64{1, 1, 1}, 2, 0},
	} {
		if got := budget.AuditShare(c.held, c.keep); got != c.want {
			t.Errorf("of %v, %d: %d, want %d", c.held, c.keep, got, c.want)
		}
	}
}
