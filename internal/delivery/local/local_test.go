package local

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/modelspec"
)

func TestModelRunsAndGoes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := desired("team-a", "demo")
	obj := b.apply(d)
	if again := b.apply(d); again != obj {
		t.Fatalf("applied twice: %+v and %+v", obj, again)
	}
	st := b.untilReady(d)
	r := st.Replicas[0]
	if st.Reason != delivery.Available || st.Object != obj || len(r.Cards) != 1 || r.Cards[0].MiB != 4096 || !r.Cards[0].Simulated {
		t.Fatalf("status %+v", st)
	}
	if r.Engine != "demo (owned by modeldock-simulated)" || r.Upstream != "demo" || r.Node != "node-1" {
		t.Fatalf("identity %+v", r)
	}
	eventually(t, func() bool { return len(b.routed()) == 1 }, func() string { return "no endpoint was published" })
	e := b.routed()[0]
	if e.UID != r.UID || e.Address != r.Address || e.Ref != d.Ref || e.ObjectUID != obj.UID {
		t.Fatalf("endpoint %+v of replica %+v", e, r)
	}
	chat(t, e.Address, e.Upstream)

	b.delete(d, obj)
	b.delete(d, obj)
	b.untilGone(d)
	if pids := family(t, b.target.runs.identity); len(pids) != 0 || len(b.routed()) != 0 {
		t.Fatalf("processes %v and endpoints %v are left", pids, b.routed())
	}
	if nodes, err := b.target.Nodes(); err != nil || nodes[0].Cards[0].AllocatedMiB+nodes[0].Cards[1].AllocatedMiB != 0 {
		t.Fatalf("cards are still taken: %+v %v", nodes, err)
	}
}

func TestDeleteNeedsTheRightUID(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := desired("team-a", "demo")
	obj := b.apply(d)
	b.delete(d, budget.Object{UID: "another"})
	if st := b.status(d); !st.Exists || !st.DeletingAt.IsZero() {
		t.Fatalf("another uid deleted the object: %+v", st)
	}
	b.delete(d, obj)
	b.untilGone(d)
}

// C012: the same id of two tenants.
func TestTwoTenantsOneID(t *testing.T) {
	t.Parallel()
	b := setup(t)
	da, db := desired("team-a", "train"), desired("team-b", "train")
	oa, ob := b.apply(da), b.apply(db)
	if oa.Name == ob.Name || oa.UID == ob.UID {
		t.Fatalf("one object for two tenants: %+v %+v", oa, ob)
	}
	b.untilReady(da)
	b.untilReady(db)
	b.delete(db, ob)
	b.untilGone(db)
	if st := b.status(da); st.Ready != 1 {
		t.Fatalf("team-a's model suffered: %+v", st)
	}
}

// C031 on one machine: whatever happened between create and bind, the next
// attempt finds the same object.
func TestRestartRebindsTheSameObject(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := desired("team-a", "demo")
	obj := b.apply(d)
	b.stop(b.target)
	b.start()
	if again := b.apply(d); again != obj {
		t.Fatalf("%+v became %+v", obj, again)
	}
	b.untilReady(d)
}

func TestForeignFileIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := desired("team-a", "demo")
	path := b.target.store.path(d.Name)
	for _, content := range []string{`{"somebody":"else"}`, `not json`, `{"version":1,"uid":"u","name":"` + d.Name + `","annotations":{"modeldock.io/tenant":"team-a","modeldock.io/request-id":"demo","modeldock.io/ledger":"other"}}`} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := b.target.Apply(t.Context(), d); !errors.Is(err, delivery.ErrNameTaken) {
			t.Fatalf("%s: %v", content, err)
		}
		b.delete(d, budget.Object{})
		if have, err := os.ReadFile(path); err != nil || string(have) != content {
			t.Fatalf("the foreign file is now %q (%v)", have, err)
		}
		if st := b.status(d); st.Exists || st.Reason != delivery.NameTaken {
			t.Fatalf("status %+v", st)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	b.apply(d)
	b.untilReady(d)
}

// C054, and the message that goes with it.
func TestNoFragmentFitsUntilMemoryFrees(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, second, third := desired("t", "one", withMemory(20000)), desired("t", "two", withMemory(20000)), desired("t", "three", withMemory(6000))
	one := b.apply(first)
	b.apply(second)
	b.untilReady(first)
	b.untilReady(second)
	b.apply(third)
	st := b.until(third, "held", func(s delivery.Status) bool { return s.Reason == delivery.NoFragmentFits })
	if want := "largest fragment 3838 MiB < 6000 MiB on node node-1 (2 cards, 7676 MiB free in total)"; !strings.Contains(st.Message, want) {
		t.Fatalf("message %q, want %q", st.Message, want)
	}
	b.delete(first, one)
	b.untilReady(third)
}

func TestLoadFailureShowsTheLastLines(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := desired("t", "broken", withArgs("--fail-load=out of memory"))
	b.apply(d)
	st := b.until(d, "failed twice", func(s delivery.Status) bool { return len(s.Replicas) == 1 && s.Replicas[0].Restarts >= 2 })
	f := st.LastFailure
	if st.Reason != delivery.ModelLoadFailed || f == nil || f.ExitCode != 1 || !strings.Contains(f.Message, "out of memory") || !strings.Contains(st.Message, "out of memory") {
		t.Fatalf("status %+v, failure %+v", st, f)
	}
	if nodes, err := b.target.Nodes(); err != nil || len(nodes[0].Cards) != 2 {
		t.Fatalf("%+v %v", nodes, err)
	}
}

func TestCrashesBackOffAndAreReported(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := desired("t", "crash")
	d.Model.Engine, d.Model.Command = modelspec.EngineCustom, []string{"/bin/sh", "-c", `echo dying; exit 7`}
	b.apply(d)
	st := b.until(d, "failed", func(s delivery.Status) bool { return s.LastFailure != nil })
	if st.LastFailure.ExitCode != 7 || !strings.Contains(st.LastFailure.Message, "dying") {
		t.Fatalf("failure %+v", st.LastFailure)
	}
}

// One crash of a model that was ready is no loop: it is back in a second, and
// whoever waits for it need not be sent away.
func TestOneCrashIsNoLoop(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := desired("t", "crash")
	b.apply(d)
	crash := func() delivery.Status {
		t.Helper()
		was := b.untilReady(d).Replicas[0]
		if p, err := os.FindProcess(was.PID); err != nil || p.Kill() != nil {
			t.Fatalf("cannot kill %d", was.PID)
		}
		return b.until(d, "crashed", func(s delivery.Status) bool {
			return s.LastFailure != nil && s.Ready == 0 && s.Replicas[0].Restarts > was.Restarts
		})
	}
	st := crash()
	if st.LastFailure.Reason != delivery.Crashed || st.Reason != delivery.Loading || st.Replicas[0].Reason != delivery.Loading {
		t.Fatalf("after one crash: %s, replica %s, failure %+v", st.Reason, st.Replicas[0].Reason, st.LastFailure)
	}
	if st = crash(); st.LastFailure.Reason != delivery.CrashLooping || st.Reason != delivery.CrashLooping {
		t.Fatalf("after two in a row: %s, failure %+v", st.Reason, st.LastFailure)
	}
}

func TestDrainWaitsForStreams(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.StopGrace = 1e12 })
	d := desired("t", "demo")
	obj := b.apply(d)
	b.untilReady(d)
	b.mu.Lock()
	b.inFlight = 1
	b.mu.Unlock()
	b.delete(d, obj)
	eventually(t, func() bool { return len(b.routed()) == 0 }, func() string { return "the endpoint stays routed" })
	st := b.until(d, "draining", func(s delivery.Status) bool { return s.Reason == delivery.Draining })
	chat(t, st.Replicas[0].Address, "demo") // the running stream is served to its end
	b.mu.Lock()
	b.inFlight = 0
	b.mu.Unlock()
	b.untilGone(d)
	told := func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.gone) > 0 }
	eventually(t, told, func() string { return "the end is not told" }) // just after it can be seen
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.gone) != 1 || b.gone[0].Object != obj {
		t.Fatalf("the end was told as %+v", b.gone)
	}
}

func TestScaleFollowsFunding(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := desired("t", "demo")
	b.apply(d)
	kept := b.untilReady(d).Replicas[0].UID
	d.Generation, d.Funded = 2, 3
	b.apply(d)
	b.until(d, "three", func(s delivery.Status) bool { return s.Ready == 3 })
	d.Generation, d.Funded = 3, 1
	b.apply(d)
	st := b.until(d, "one", func(s delivery.Status) bool { return s.Ready == 1 && len(s.Replicas) == 1 })
	if st.Generation != 3 || st.Replicas[0].UID != kept {
		t.Fatalf("status %+v, want replica %s to stay", st, kept)
	}
}

// A surplus replica is withdrawn, finishes what it serves and is paid for until
// it is gone: nothing takes its place before.
func TestShrinkDrainsTheSurplus(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.StopGrace = 1e12 })
	d := desired("t", "demo")
	d.Funded = 2
	b.apply(d)
	first := b.untilReady(d).Replicas
	b.mu.Lock()
	b.inFlight = 1
	b.mu.Unlock()
	d.Generation, d.Funded = 2, 1
	b.apply(d)
	eventually(t, func() bool { return len(b.routed()) == 1 }, func() string { return "the surplus stays routed" })
	st := b.until(d, "shrinking", func(s delivery.Status) bool { return s.Ready == 1 && s.Processes() == 2 })
	if st.Reason != delivery.Available || !strings.Contains(st.Message, "1 of 1 replicas are ready; 1 more") {
		t.Fatalf("%s: %s", st.Reason, st.Message)
	}
	for _, r := range st.Replicas {
		if r.Phase == delivery.PhaseTerminating {
			chat(t, r.Address, "demo") // what it serves is served to its end
		}
	}
	d.Generation, d.Funded = 3, 2
	b.apply(d)
	b.target.poke()
	if st = b.status(d); st.Processes() != 2 {
		t.Fatalf("a third process beside two that are paid for: %+v", st.Replicas)
	}
	b.mu.Lock()
	b.inFlight = 0
	b.mu.Unlock()
	st = b.until(d, "two again", func(s delivery.Status) bool { return s.Ready == 2 && s.Processes() == 2 })
	kept := 0
	for _, r := range st.Replicas {
		if r.UID == first[0].UID || r.UID == first[1].UID {
			kept++
		}
	}
	if kept != 1 || st.LastFailure != nil {
		t.Fatalf("%d of the first two are left: %+v", kept, st)
	}
}

// The newest replica goes, whatever its number is; the other one then is what
// the model's output is asked of.
func TestShrinkKeepsTheOlderReplica(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := desired("t", "demo")
	d.Funded = 2
	b.apply(d)
	st := b.untilReady(d)
	younger, older := st.Replicas[0], st.Replicas[1]
	if p, err := os.FindProcess(younger.PID); err != nil || p.Kill() != nil {
		t.Fatalf("cannot kill %d", younger.PID)
	}
	b.until(d, "started again", func(s delivery.Status) bool { return s.Ready == 2 && s.Replicas[0].UID != younger.UID })
	d.Generation, d.Funded = 2, 1
	b.apply(d)
	st = b.until(d, "one", func(s delivery.Status) bool { return s.Ready == 1 && len(s.Replicas) == 1 })
	if st.Replicas[0].UID != older.UID {
		t.Fatalf("%+v is left, want %+v", st.Replicas[0], older)
	}
	if name := b.target.firstRunning(d.Name, "nobody"); name != older.Name {
		t.Fatalf("the output of %s is shown, want %s", name, older.Name)
	}
	d.Generation, d.Funded = 3, 2
	b.apply(d)
	st = b.untilReady(d)
	if len(st.Replicas) != 2 || st.Replicas[1].UID != older.UID {
		t.Fatalf("status %+v", st)
	}
}

func TestLogs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := desired("t", "demo")
	b.apply(d)
	b.untilReady(d)
	var lines []string
	eventually(t, func() bool {
		r, err := b.target.Logs(t.Context(), d.Ref, "", 1, false)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(r)
		_ = r.Close()
		lines = strings.Split(strings.TrimSpace(string(raw)), "\n")
		return err == nil && slices.Equal(lines, []string{"simulated engine: ready"})
	}, func() string { return strings.Join(lines, "|") })

	ctx, cancel := context.WithCancel(t.Context())
	follow, err := b.target.Logs(ctx, d.Ref, d.Name+"-0", 0, true)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if raw, err := io.ReadAll(follow); err != nil || !strings.Contains(string(raw), "loading demo") {
		t.Fatalf("followed %q (%v)", raw, err)
	}
	if _, err := b.target.Logs(t.Context(), d.Ref, "../../instance", 0, false); !errors.Is(err, budget.ErrNotFound) {
		t.Fatalf("a path was taken for a replica: %v", err)
	}
}

func TestRemovedRecordIsWrittenAgain(t *testing.T) {
	t.Parallel()
	var skew atomic.Int64
	b := setup(t, func(c *Config) {
		c.Clock = func() time.Time { return time.Now().Add(time.Duration(skew.Load())) }
	})
	d := desired("t", "demo")
	obj := b.apply(d)
	b.untilReady(d)
	if err := os.Remove(b.target.store.path(d.Name)); err != nil {
		t.Fatal(err)
	}
	skew.Store(int64(guardEvery))
	eventually(t, func() bool { return b.target.store.Has(d.Name) }, func() string { return "the record stays away" })
	if rec, err := b.target.store.Read(d.Name); err != nil || rec.UID != obj.UID || b.status(d).Ready != 1 {
		t.Fatalf("record %+v (%v)", rec, err)
	}
}

func TestChangedDescriptionReplacesTheProcess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := desired("t", "demo")
	b.apply(d)
	first := b.untilReady(d).Replicas[0]
	d.Generation = 2
	d.Model.Traffic.Weight = 50
	b.apply(d)
	if st := b.status(d); st.Generation != 2 || st.Ready != 1 {
		t.Fatalf("a new weight needs no new process: %+v", st)
	}
	d.Generation = 3
	d.Model.Args = append(d.Model.Args, "--tokens=7")
	b.apply(d)
	if st := b.status(d); st.Generation != 2 {
		t.Fatalf("the process of generation 2 still runs: %+v", st)
	}
	st := b.until(d, "replaced", func(s delivery.Status) bool { return s.Ready == 1 && s.Generation == 3 })
	if st.Replicas[0].UID == first.UID || st.LastFailure != nil {
		t.Fatalf("status %+v", st)
	}
	stale := desired("t", "demo")
	b.apply(stale) // an old intent changes nothing
	if st := b.status(d); st.Generation != 3 {
		t.Fatalf("an old intent was applied: %+v", st)
	}
}

func TestOneTargetPerDataDirectory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if _, err := New(b.cfg); err == nil || !strings.Contains(err.Error(), "another modeldock (pid ") {
		t.Fatalf("a second target on the same directory: %v", err)
	}
}
