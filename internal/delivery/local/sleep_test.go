package local

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/local/procfs"
	"modeldock.io/internal/modelspec"
)

func asleep(n int) func(*modelspec.Model) {
	return func(m *modelspec.Model) { m.Scaling = &modelspec.Scaling{Asleep: n} }
}

func withHostMemory(mib int64) func(*Config) { return func(c *Config) { c.AsleepMiB = mib } }

// sleeps waits until n replicas sleep and as many are ready as are wanted.
func (b *bench) sleeps(d delivery.Desired, n int) delivery.Status {
	b.t.Helper()
	return b.until(d, fmt.Sprintf("%d asleep", n), func(s delivery.Status) bool {
		return s.Sleeping() == n && s.Ready == s.Wanted && s.Processes() == s.Wanted && len(s.Replicas) == s.Wanted+n
	})
}

// held is what replicas hold of all cards.
func (b *bench) held() (mib int64) {
	b.t.Helper()
	nodes, err := b.target.Nodes()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, c := range nodes[0].Cards {
		mib += c.AllocatedMiB
	}
	return mib
}

// engineSays is one of the engine's own figures.
func engineSays(t *testing.T, address, name string) string {
	t.Helper()
	res, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, _ := io.ReadAll(res.Body)
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, name+"{") {
			return strings.TrimSpace(line[strings.LastIndexByte(line, ' '):])
		}
	}
	t.Fatalf("the engine has no metric %s", name)
	return ""
}

// TestOneSleepsWhileTheOtherServes: two models that have room on the machine
// only one at a time. The process that slept is the one that is woken.
func TestOneSleepsWhileTheOtherServes(t *testing.T) {
	t.Parallel()
	metrics := NewMetrics()
	b := setup(t, withHostMemory(100_000), func(c *Config) { c.Metrics = metrics })
	big := []func(*modelspec.Model){between(0, 2), withMemory(20_000), asleep(1), withArgs("--wake-delay=20ms"), func(m *modelspec.Model) { m.GPUs = 2 }}
	a, c := desired("team-a", "one", big...), desired("team-b", "two", big...)
	b.apply(a)
	first := b.untilReady(a).Replicas[0]
	for turn := range 3 {
		b.apply(c) // the first time, it is made
		if turn > 0 {
			if err := b.scale(c.Ref, 0, 1); err != nil {
				t.Fatal(err)
			}
		}
		b.until(c, "held", func(s delivery.Status) bool { return s.Reason == delivery.NoFragmentFits })
		if err := b.scale(a.Ref, 1, 0); err != nil {
			t.Fatal(err)
		}
		st := b.sleeps(a, 1)
		if r := st.Replicas[0]; r.PID != first.PID || r.UID != first.UID || len(r.Cards) != 0 || !r.ReadyAt.IsZero() || r.Phase != delivery.PhaseAsleep {
			t.Fatalf("asleep: %+v, it was %+v", r, first)
		}
		if !st.Asleep() || st.Reason != delivery.ScaledToZero || !strings.Contains(st.Message, "1 stay loaded in host memory") {
			t.Errorf("asleep: %s, %s", st.Reason, st.Message)
		}
		if got := engineSays(t, first.Address, "modeldock_simulated_memory_bytes"); got != "0" {
			t.Errorf("asleep, the engine uses %s bytes", got)
		}
		b.untilReady(c)
		eventually(t, func() bool { eps := b.routed(); return len(eps) == 1 && eps[0].Ref == c.Ref }, func() string {
			return fmt.Sprintf("routed to %+v", b.routed())
		})
		if got := b.held(); got != 2*20_000 {
			t.Errorf("one serves and one sleeps: %d MiB are held", got)
		}
		if err := b.scale(a.Ref, 0, 1); err != nil { // it wants to wake, and its cards are full
			t.Fatal(err)
		}
		b.until(a, "held", func(s delivery.Status) bool { return s.Reason == delivery.NoFragmentFits && s.Sleeping() == 1 })
		if err := b.scale(c.Ref, 1, 0); err != nil {
			t.Fatal(err)
		}
		r := b.untilReady(a).Replicas
		b.sleeps(c, 1)
		if len(r) != 1 || r[0].PID != first.PID || r[0].WokenAt.IsZero() || r[0].ReadyAt.Before(r[0].WokenAt) || len(r[0].Cards) != 2 {
			t.Fatalf("woken: %+v, it was %+v", r, first)
		}
		if got, want := engineSays(t, first.Address, "modeldock_simulated_wakes_total"), fmt.Sprint(turn+1); got != want {
			t.Errorf("the engine was woken %s times, want %s", got, want)
		}
		chat(t, first.Address, "one")
		// Both woke once in each turn, but the other one was started in the first.
		eventually(t, func() bool {
			return testutil.ToFloat64(metrics.asleep) == 1 && testutil.ToFloat64(metrics.memory) == 40_000<<20
		}, func() string {
			return fmt.Sprintf("metrics: %g asleep in %g bytes", testutil.ToFloat64(metrics.asleep), testutil.ToFloat64(metrics.memory))
		})
		warm, cold := testutil.ToFloat64(metrics.activations.WithLabelValues("warm")), testutil.ToFloat64(metrics.activations.WithLabelValues("cold"))
		if warm != float64(2*turn+1) || cold != 2 {
			t.Errorf("turn %d: %g were woken and %g started", turn, warm, cold)
		}
		if got := b.held(); got != 2*20_000 {
			t.Errorf("woken: %d MiB are held", got)
		}
	}
}

// TestWhoSleeps: as many as the model asks for and the host memory has room
// for; the others are stopped. A setting that is taken back ends them.
func TestWhoSleeps(t *testing.T) {
	t.Parallel()
	b := setup(t, withHostMemory(3000))
	d := desired("team-a", "many", between(0, 4), withMemory(1000), asleep(2))
	d.Funded = 4
	b.apply(d)
	b.runs(d, 4)
	if err := b.scale(d.Ref, 4, 1); err != nil {
		t.Fatal(err)
	}
	b.sleeps(d, 2)
	if got := b.held(); got != 1000 {
		t.Errorf("one serves: %d MiB are held", got)
	}
	other := desired("team-b", "other", between(0, 2), withMemory(1000), asleep(2))
	other.Funded = 2
	b.apply(other)
	b.runs(other, 2)
	if err := b.scale(other.Ref, 2, 0); err != nil {
		t.Fatal(err)
	}
	b.sleeps(other, 1) // 3000 MiB of host memory have no room for a fourth
	if err := b.scale(d.Ref, 1, 3); err != nil {
		t.Fatal(err)
	}
	woken := 0
	for _, r := range b.sleeps(d, 0).Replicas {
		if !r.WokenAt.IsZero() {
			woken++
		}
	}
	if woken != 2 {
		t.Errorf("%d of 2 that slept were woken", woken)
	}
	if err := b.scale(d.Ref, 3, 1); err != nil {
		t.Fatal(err)
	}
	b.sleeps(d, 2)
	d.Generation, d.Model.Scaling = 2, nil
	b.apply(d)
	b.sleeps(d, 0)
	if st := b.status(d); st.Generation != 2 || st.Ready != 1 {
		t.Errorf("none is to sleep: %+v", st)
	}
}

// TestHostMemoryIsShared: who has most of it gives some back to a tenant whose
// replica finds none, and that serves on until it is there.
func TestHostMemoryIsShared(t *testing.T) {
	t.Parallel()
	b := setup(t, withHostMemory(3000))
	most := desired("team-a", "most", between(0, 3), withMemory(1000), asleep(3))
	most.Funded = 3
	b.apply(most)
	b.runs(most, 3)
	if err := b.scale(most.Ref, 3, 0); err != nil {
		t.Fatal(err)
	}
	b.sleeps(most, 3)
	other := desired("team-b", "other", between(0, 1), withMemory(1000), asleep(1))
	b.apply(other)
	b.runs(other, 1)
	if err := b.scale(other.Ref, 1, 0); err != nil {
		t.Fatal(err)
	}
	b.sleeps(other, 1)
	b.sleeps(most, 2)
}

// TestNoneSleepsWithoutHostMemory: without the machine's consent a replica
// that is not wanted is stopped, as ever.
func TestNoneSleepsWithoutHostMemory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := desired("team-a", "plain", between(0, 1), asleep(1))
	b.apply(d)
	b.untilReady(d)
	if err := b.scale(d.Ref, 1, 0); err != nil {
		t.Fatal(err)
	}
	b.until(d, "stopped", func(s delivery.Status) bool { return len(s.Replicas) == 0 })
}

// TestSleepersEndWithTheirObject: a release ends them, and what is left of the
// object goes after the last one.
func TestSleepersEndWithTheirObject(t *testing.T) {
	t.Parallel()
	b := setup(t, withHostMemory(100_000))
	d := desired("team-a", "ends", between(0, 2), asleep(2))
	d.Funded = 2
	obj := b.apply(d)
	b.runs(d, 2)
	if err := b.scale(d.Ref, 2, 0); err != nil {
		t.Fatal(err)
	}
	b.sleeps(d, 2)
	b.delete(d, obj)
	b.untilGone(d)
	if left := family(t, b.target.runs.identity); len(left) != 0 {
		t.Errorf("processes %v are left", left)
	}
	if b.held() != 0 {
		t.Errorf("%d MiB are held", b.held())
	}
}

// TestEnginesThatDoNotSleepOrWake: one that does not fall asleep is stopped,
// one that does not wake up is started anew, and neither counts as a failure.
func TestEnginesThatDoNotSleepOrWake(t *testing.T) {
	t.Parallel()
	b := setup(t, withHostMemory(100_000))
	never := desired("team-a", "never", between(0, 1), asleep(1), withArgs("--fail-sleep"))
	b.apply(never)
	b.untilReady(never)
	if err := b.scale(never.Ref, 1, 0); err != nil {
		t.Fatal(err)
	}
	b.until(never, "stopped", func(s delivery.Status) bool { return len(s.Replicas) == 0 })

	d := desired("team-a", "deep", between(0, 1), asleep(1), withArgs("--fail-wake"))
	b.apply(d)
	first := b.untilReady(d).Replicas[0]
	if err := b.scale(d.Ref, 1, 0); err != nil {
		t.Fatal(err)
	}
	b.sleeps(d, 1)
	if err := b.scale(d.Ref, 0, 1); err != nil {
		t.Fatal(err)
	}
	st := b.untilReady(d)
	if r := st.Replicas[0]; len(st.Replicas) != 1 || r.PID == first.PID || !r.WokenAt.IsZero() || st.LastFailure != nil {
		t.Errorf("started anew: %+v, last failure %+v", st.Replicas, st.LastFailure)
	}
}

// TestASleeperThatDiesIsGone: killed, or woken by somebody else, it is ended
// and forgotten, its card stays free, and the next call starts another.
func TestASleeperThatDiesIsGone(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(t *testing.T, r delivery.Replica){
		"killed": func(t *testing.T, r delivery.Replica) {
			if err := syscall.Kill(r.PID, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		},
		"woken": func(t *testing.T, r delivery.Replica) {
			res, err := http.Post("http://"+r.Address+"/wake_up", "", nil)
			if err != nil {
				t.Error(err)
				return
			}
			_ = res.Body.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, withHostMemory(100_000))
			d := desired("team-a", "dies", between(0, 1), asleep(1), withArgs("--wake-delay=1ms"))
			b.apply(d)
			b.untilReady(d)
			if err := b.scale(d.Ref, 1, 0); err != nil {
				t.Fatal(err)
			}
			r := b.sleeps(d, 1).Replicas[0]
			harm(t, r)
			st := b.until(d, "forgotten", func(s delivery.Status) bool { return len(s.Replicas) == 0 })
			if !st.Asleep() || st.LastFailure != nil || b.held() != 0 {
				t.Errorf("after it: %+v, %d MiB held", st, b.held())
			}
			if err := b.scale(d.Ref, 0, 1); err != nil {
				t.Fatal(err)
			}
			if next := b.untilReady(d).Replicas[0]; next.PID == r.PID || !next.WokenAt.IsZero() {
				t.Errorf("started: %+v", next)
			}
		})
	}
}

// TestDemandComesBackWhileItDozes: who is wanted again while its engine is
// being put to sleep is woken, and never counted beside another one.
func TestDemandComesBackWhileItDozes(t *testing.T) {
	t.Parallel()
	b := setup(t, withHostMemory(100_000))
	d := desired("team-a", "dozes", between(0, 1), asleep(1), withArgs("--wake-delay=1ms"))
	b.apply(d)
	first := b.untilReady(d).Replicas[0]
	b.mu.Lock()
	b.inFlight = 1 // it drains
	b.mu.Unlock()
	if err := b.scale(d.Ref, 1, 0); err != nil {
		t.Fatal(err)
	}
	b.until(d, "drained", func(s delivery.Status) bool {
		return s.Replicas[0].Phase == delivery.PhaseTerminating && s.Processes() == 1
	})
	if err := b.scale(d.Ref, 0, 1); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	b.inFlight = 0
	b.mu.Unlock()
	if r := b.until(d, "woken", func(s delivery.Status) bool { return s.Ready == 1 && !s.Replicas[0].WokenAt.IsZero() }).Replicas; len(r) != 1 || r[0].PID != first.PID {
		t.Errorf("woken: %+v", r)
	}
}

// TestNothingOfASleeperSurvives: ModelDock ends them when it ends, and starts
// none of them when it is started again.
func TestNothingOfASleeperSurvives(t *testing.T) {
	t.Parallel()
	b := setup(t, withHostMemory(100_000))
	d := desired("team-a", "survives", between(0, 1), asleep(1))
	b.apply(d)
	b.untilReady(d)
	if err := b.scale(d.Ref, 1, 0); err != nil {
		t.Fatal(err)
	}
	b.sleeps(d, 1)
	b.stop(b.target)
	eventually(t, func() bool { return len(family(t, b.target.runs.identity)) == 0 }, func() string { return "processes are left" })
	b.start()
	if st := b.status(d); !st.Asleep() || len(st.Replicas) != 0 || b.held() != 0 {
		t.Errorf("after a restart: %+v, %d MiB held", st, b.held())
	}
	if err := b.scale(d.Ref, 0, 1); err != nil {
		t.Fatal(err)
	}
	b.untilReady(d)
}

// TestWhatRunsComesFirst: while the machine is short of memory nothing sleeps.
func TestWhatRunsComesFirst(t *testing.T) {
	t.Parallel()
	var short atomic.Bool
	b := setup(t, withHostMemory(100_000), func(c *Config) {
		c.Memory = func() (procfs.Memory, error) {
			if short.Load() {
				return procfs.Memory{TotalMiB: 64_000, AvailableMiB: 3_000}, nil
			}
			return plenty()
		}
	})
	d := desired("team-a", "modest", between(0, 2), asleep(2))
	d.Funded = 2
	b.apply(d)
	b.runs(d, 2)
	if err := b.scale(d.Ref, 2, 0); err != nil {
		t.Fatal(err)
	}
	b.sleeps(d, 2)
	short.Store(true)
	b.until(d, "ended", func(s delivery.Status) bool { return len(s.Replicas) == 0 })
}
