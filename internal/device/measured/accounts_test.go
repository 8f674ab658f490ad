package measured

import (
	"testing"
	"time"
)

func TestAccountsOfASamplesMoment(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	at := func(seconds float64) time.Time {
		return start.Add(time.Duration(seconds * float64(time.Second)))
	}
	var a Accounts
	if _, ok := a.Since("c", at(0)); ok {
		t.Error("something is known before anything was noted")
	}
	a.Note(at(0), map[string]int64{"c": 10})
	a.Note(at(1), map[string]int64{"c": 30})
	a.Note(at(2), map[string]int64{"c": 20})
	a.Note(at(3), map[string]int64{})
	for _, c := range []struct {
		then float64
		want int64
	}{
		{-1, 30},                               // before the first: all that is known
		{0.5, 30},                              // what came a moment later counts
		{1, 30}, {1.9, 30}, {2, 20}, {2.5, 20}, // what ended since counts
		{3, 0}, {9, 0},
	} {
		if got, ok := a.Since("c", at(c.then)); !ok || got != c.want {
			t.Errorf("since %v s: %d, %v; want %d", c.then, got, ok, c.want)
		}
	}
	if got, ok := a.Since("other", at(0)); !ok || got != 0 {
		t.Errorf("a card without models: %d, %v", got, ok)
	}
}

// It keeps no more than what samples that count can ask for.
func TestAccountsForget(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	var a Accounts
	for i := range 1000 {
		a.Note(start.Add(time.Duration(i)*time.Second), map[string]int64{"c": int64(i)})
	}
	if n := len(a.pictures); n > 8 {
		t.Errorf("%d pictures are kept", n)
	}
	last := start.Add(999 * time.Second)
	if got, ok := a.Since("c", last.Add(-FreshFor)); !ok || got != 999 {
		t.Errorf("%d, %v", got, ok)
	}
	if oldest := a.pictures[0].at; last.Sub(oldest) < FreshFor {
		t.Errorf("the oldest kept is of %s ago, and samples count for %s", last.Sub(oldest), FreshFor)
	}
}
