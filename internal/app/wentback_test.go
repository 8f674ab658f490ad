package app

import "testing"

// A journal that is shorter than it was read before is never believed again
// until somebody compared it; a longer one is what is known from then on.
func TestJournalThatWentBack(t *testing.T) {
	t.Parallel()
	c := &control{}
	for _, step := range []struct {
		seq  int64
		back bool
	}{{0, false}, {5, false}, {5, false}, {9, false}, {8, true}, {5, true}, {9, false}, {12, false}, {11, true}} {
		if got := c.wentBack(step.seq); got != step.back {
			t.Errorf("journal at %d after %d: went back %v, want %v", step.seq, c.age.seen.Load(), got, step.back)
		}
	}
}
