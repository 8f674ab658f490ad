package local

import (
	"os"
	"sync/atomic"
	"testing"
	"time"

	"modeldock.io/internal/delivery"
)

// What a replica proved outlives it: a crash, a restart of ModelDock in the
// middle of a release, and the object itself, for the retention time.
func TestFactsOutliveTheObject(t *testing.T) {
	t.Parallel()
	var skew atomic.Int64
	b := setup(t, func(c *Config) {
		c.Clock = func() time.Time { return time.Now().Add(time.Duration(skew.Load())) }
	})
	d := desired("t", "demo")
	obj := b.apply(d)
	was := b.untilReady(d).Replicas[0]
	b.delete(d, obj)
	b.untilGone(d)
	proven := func(when string) {
		t.Helper()
		st := b.status(d)
		if st.Exists || st.Object.UID != obj.UID || len(st.Replicas) != 0 || len(st.Last) != 1 {
			t.Fatalf("%s: %+v", when, st)
		}
		if r := st.Last[0]; r.UID != was.UID || r.PID != was.PID || len(r.Cards) != 1 || r.Cards[0] != was.Cards[0] || !r.ReadyAt.Equal(was.ReadyAt) || r.Engine != was.Engine {
			t.Fatalf("%s: %+v, want %+v", when, r, was)
		}
	}
	proven("after the release")
	b.stop(b.target)
	b.start()
	proven("after a restart")
	skew.Store(int64(keepFacts) - int64(time.Hour))
	b.target.poke()
	proven("within the retention")
	skew.Store(int64(keepFacts) + int64(2*time.Hour))
	b.target.poke()
	eventually(t, func() bool { return len(b.status(d).Last) == 0 }, func() string { return "the facts are kept for ever" })
}

// A failed replica's card and process stay known while it waits to be tried again.
func TestFactsOutliveACrash(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := desired("t", "broken", withArgs("--fail-load=out of memory"))
	b.apply(d)
	st := b.until(d, "in backoff", func(s delivery.Status) bool {
		return s.LastFailure != nil && s.Replicas[0].Phase == delivery.PhaseBackoff
	})
	if len(st.Last) != 1 || len(st.Last[0].Cards) != 1 || st.Last[0].StartedAt.IsZero() || st.Last[0].PID == 0 || st.Last[0].Name != st.LastFailure.Replica {
		t.Fatalf("last %+v", st.Last)
	}
	b.stop(b.target)
	if known := b.target.facts.Read(d.Name); known.UID != st.Object.UID || len(known.Last) != 1 || known.Last[0].StartedAt.IsZero() {
		t.Fatalf("kept %+v", known)
	}
	other := newObject(record{Name: d.Name, UID: "another object"})
	if other.recall(b.target.facts); len(other.last) != 0 {
		t.Fatalf("facts of another object: %+v", other.last)
	}
	if err := os.WriteFile(b.target.facts.path(d.Name), []byte("not json"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.start() // nothing is decided by facts, so nothing fails without them
	b.until(d, "failed again", func(s delivery.Status) bool { return s.LastFailure != nil })
}
