package placement

import (
	"strings"
	"testing"
	"time"
)

func TestUnaccounted(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		sample   Sample
		headroom int64
		want     int64
		stale    bool
		bad      bool
	}{
		"a stranger":           {Sample{5000, 0, now}, 300, 4700, false, false},
		"all accounted":        {Sample{5000, 4900, now}, 300, 0, false, false},
		"less than accounted":  {Sample{1000, 8000, now}, 300, 0, false, false},
		"just fresh":           {Sample{5000, 0, now.Add(-MeasuredFor)}, 0, 5000, false, false},
		"stale":                {Sample{5000, 0, now.Add(-MeasuredFor - 1)}, 0, 0, true, false},
		"from the future":      {Sample{5000, 0, now.Add(time.Minute)}, 0, 0, true, false},
		"never":                {Sample{UsedMiB: 5000}, 0, 0, true, false},
		"negative":             {Sample{-1, 0, now}, 0, 0, false, true},
		"overflow":             {Sample{1 << 62, 0, now}, 0, 0, false, true},
		"negative allocations": {Sample{5, -1 << 62, now}, 0, 0, false, true},
	} {
		got, stale, err := c.sample.Unaccounted(c.headroom, now)
		if got != c.want || stale != c.stale || (err != nil) != c.bad {
			t.Errorf("%s: %d MiB, stale %v, %v", name, got, stale, err)
		}
	}
}

// While a preemption is simulated, what nobody accounts for stays taken: the
// victims' memory comes free, and only that.
func TestStrangersStayWhileVictimsGo(t *testing.T) {
	t.Parallel()
	now := time.Now()
	strange, stale, err := Sample{UsedMiB: 7000, AllocatedMiB: 4000, At: now}.Unaccounted(256, now)
	if err != nil || stale {
		t.Fatal(stale, err)
	}
	v, err := NewView(Node{Name: "n", Cards: []Card{{UUID: "c", TotalMiB: 10256, ReservedMiB: 256, UnaccountedMiB: strange, Healthy: true}}},
		[]Allocation{{"victim", "c", 4000}})
	if err != nil {
		t.Fatal(err)
	}
	without := v.Clone()
	if err := without.Give("c", 4000); err != nil {
		t.Fatal(err)
	}
	if v.LargestMiB() != 3256 || without.LargestMiB() != 7256 {
		t.Fatalf("%d MiB free, and %d without the victim", v.LargestMiB(), without.LargestMiB())
	}
	if err := without.Give("c", 1); err == nil {
		t.Fatal("more was given back than was taken")
	}
}

func TestStaleMeasurementsAreNamed(t *testing.T) {
	t.Parallel()
	n := node("n", 4000, 4000)
	n.Cards[0].Stale = true
	d := place(t, []Node{n}, nil, Request{MiB: 5000, Cards: 1})
	if !strings.Contains(d.Reason, "measured use of 1 ignored because it is older than 5s") {
		t.Fatal(d.Reason)
	}
}
