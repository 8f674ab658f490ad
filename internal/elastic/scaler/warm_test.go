package scaler_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/elastic"
	"modeldock.io/internal/elastic/scaler"
	"modeldock.io/internal/modelspec"
	"modeldock.io/internal/traffic"
)

// warm keeps so many models of class llm hot in the default pool.
func (b *bench) warm(gpuHours float64, hot int, change ...func(*modelspec.WarmClass)) {
	b.Helper()
	c := modelspec.WarmClass{Class: modelspec.ClassLLM, Hot: hot}
	for _, f := range change {
		f(&c)
	}
	_, err := b.ledger.SetWarm(b.Context(), budget.DefaultPool, modelspec.WarmPool{GPUHoursPerDay: gpuHours, Classes: []modelspec.WarmClass{c}})
	b.must(err)
}

func (b *bench) pool() scaler.WarmReport {
	b.Helper()
	all, err := b.scaler.WarmPools(b.Context())
	b.must(err)
	if len(all) != 1 {
		b.Fatalf("%d reports, want one", len(all))
	}
	return all[0]
}

// call is a call that came and ended.
func (b *bench) call(ref budget.Ref) { b.load(ref, 0, 1); b.round(); b.load(ref, 0, 0) }

func sleepy(s *budget.Submission) { s.Model.Scaling = &modelspec.Scaling{IdleSeconds: 60} }

// The model that was called last stays, the other one sleeps; the pool pays
// for what nobody calls, and for nothing else, until its budget is spent.
func TestThePoolKeepsWhoWasCalledLast(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.cfg.Metrics = scaler.NewMetrics()
	b.restart()
	b.warm(0.5, 1)
	one, two := b.serve("one", 0, 2, sleepy), b.serve("two", 0, 2, sleepy)
	b.call(two)
	b.pass(period)
	b.call(one)
	b.rounds(10 * time.Minute) // beyond idle, and beyond the down window
	b.is("the one that was called last", one, 1, 1)
	b.is("the other one", two, 0, 1)
	if d := b.latest(one); d.Reason != elastic.ReasonKept || !strings.Contains(d.Message, "1 of 1 of class llm") || !strings.Contains(d.Message, "of 0.5 GPU-hours") {
		t.Errorf("why it stays: %+v", d)
	}
	p := b.pool()
	if spent := p.Day.GPUHours(); spent < 3.0/60 || spent > 9.0/60 || p.Plan.Classes[0].Hot != (elastic.WarmCount{Wanted: 1, Kept: 1}) {
		t.Errorf("after about five idle minutes: %.3f GPU-hours, %+v", spent, p.Plan)
	}
	// A call finds it hot, and costs the pool nothing while it runs.
	b.load(one, 0, 1)
	b.rounds(period)
	before := b.pool().Day
	b.rounds(5 * time.Minute)
	if after := b.pool().Day; after.Seconds != before.Seconds || after.Counts[elastic.ActivatedHot] != 1 {
		t.Errorf("while it is called: %+v, was %+v", after, before)
	}
	b.load(one, 0, 0)
	b.rounds(40 * time.Minute)
	b.is("when the budget is spent", one, 0, 1)
	if p = b.pool(); p.Day.GPUHours() < 0.5 || p.Day.GPUHours() > 0.51 || !strings.Contains(p.Plan.Classes[0].Why, "are spent") {
		t.Errorf("%.3f GPU-hours, %+v", p.Day.GPUHours(), p.Plan.Classes)
	}
}

// What was spent, and how callers found their models, is there after a kill,
// and goes on; a new day begins with nothing.
func TestTheAccountSurvivesAKill(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.warm(24, 1)
	ref := b.serve("one", 0, 1, sleepy)
	b.rounds(20 * time.Minute)
	before := b.pool().Day
	if before.Seconds < 600 {
		t.Fatalf("nothing was kept: %+v", before)
	}
	b.restart()
	if kept := b.pool().Day; kept.Seconds < before.Seconds-15 || kept.Seconds > before.Seconds {
		t.Errorf("%.0f card seconds were counted, %.0f are known after a kill", before.Seconds, kept.Seconds)
	}
	other := b.serve("other", 0, 1, sleepy)
	b.rounds(20 * time.Minute) // the gateways forgot, too
	b.is("it is kept on", ref, 0, 1)
	b.is("for the one that came last", other, 1, 1)
	after := b.pool().Day
	if after.Seconds < before.Seconds+600 {
		t.Errorf("%.0f card seconds after another 20 minutes, were %.0f", after.Seconds, before.Seconds)
	}
	b.pass(24 * time.Hour)
	if p := b.pool(); p.Day.Seconds != 0 || p.Day.Day == after.Day {
		t.Errorf("a new day: %+v", p.Day)
	}
	b.rounds(period)
	if d := b.pool().Day; d.Seconds > 301 {
		t.Errorf("a day in which nobody looked is charged with %.0f card seconds", d.Seconds)
	}
}

// Who scales again after another process did goes on with the other's account.
func TestTheAccountIsHandedOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.warm(24, 1)
	b.serve("one", 0, 1, sleepy)
	b.rounds(20 * time.Minute)
	first, before := b.scaler, b.pool().Day
	over, end := context.WithCancel(t.Context())
	end()
	first.Run(over, nil) // it ends at once, in order
	b.restart()
	if kept := b.pool().Day; kept.Seconds < before.Seconds {
		t.Errorf("%.0f card seconds were counted, and %.0f handed over", before.Seconds, kept.Seconds)
	}
	b.rounds(20 * time.Minute)
	middle := b.pool().Day
	b.scaler.Run(over, nil)
	b.scaler = first
	b.rounds(period)
	if after := b.pool().Day; after.Seconds < middle.Seconds || middle.Seconds <= before.Seconds {
		t.Errorf("%.0f, then %.0f by another, then %.0f card seconds", before.Seconds, middle.Seconds, after.Seconds)
	}
}

// A schedule wakes who was called last, before anybody asks.
func TestAScheduleWakes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	at := b.clock().UTC().Add(30 * time.Minute)
	b.warm(24, 0, func(c *modelspec.WarmClass) {
		c.Schedules = []modelspec.WarmSchedule{{From: at.Format("15:04"), To: at.Add(time.Hour).Format("15:04"), Hot: 1}}
	})
	ref := b.serve("one", 0, 1, sleepy)
	b.rounds(20 * time.Minute)
	b.is("before", ref, 0, 1)
	b.rounds(12 * time.Minute)
	b.is("in the schedule", ref, 1, 1)
	if rep := b.explain(ref); !slices.ContainsFunc(rep.Steps, func(s delivery.ScalingStep) bool { return s.Reason == elastic.ReasonPrewarmed }) {
		t.Errorf("steps are %+v", rep.Steps)
	}
	b.rounds(time.Hour + 10*time.Minute)
	b.is("after", ref, 0, 1)
	if spent := b.pool().Day.GPUHours(); spent < 0.95 || spent > 1.1 {
		t.Errorf("an hour's schedule cost %.3f GPU-hours", spent)
	}
}

// Callers who had to wait are counted by what they waited for, and tell what
// another hour would buy.
func TestWaitsAreCounted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.warm(1, 0)
	b.cardMiB = 6000
	one, two := b.serve("one", 0, 1, sleepy), b.serve("two", 1, 1)
	b.rounds(10 * time.Minute) // once one sleeps, two has the card, and does not yield
	b.is("one", one, 0, 1)
	b.load(one, 1, 0)
	b.rounds(time.Minute) // it waits for a card
	b.mu.Lock()
	delete(b.objects, two)
	b.mu.Unlock()
	b.rounds(2 * period)
	p := b.pool()
	if p.Day.Counts[elastic.ActivatedCold] != 1 || p.Day.Counts[elastic.ActivatedWarm] != 0 {
		t.Fatalf("a caller who waited for a card: %+v", p.Day)
	}
	if wait, known := p.Day.P99(); !known || wait < 50*time.Second || wait > 90*time.Second {
		t.Errorf("it waited for a minute, p99 is %s", wait)
	}
	b.load(one, 0, 0)
	b.rounds(10 * time.Minute)
	b.is("one, idle again", one, 0, 1)
	b.load(one, 1, 0)
	b.rounds(2 * period)
	p = b.pool()
	if p.Day.Counts[elastic.ActivatedWarm] != 1 {
		t.Errorf("a caller whose model started at once: %+v", p.Day)
	}
	b.load(one, 0, 0)
	b.rounds(10 * time.Minute)
	if p = b.pool(); p.Next == nil || p.Next.Class != modelspec.ClassLLM || p.Next.Activations <= 0 {
		t.Errorf("what the next hour buys: %+v", p.Next)
	}
}

// Who is in the pool's minimum does not make room; and who was woken before
// anybody asks never stands in the way of a model that has callers.
func TestTheMinimumDoesNotYield(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.cardMiB = 6000
	b.warm(24, 1)
	vision := func(s *budget.Submission) { s.Model.Class = modelspec.ClassVision }
	kept := b.serve("kept", 0, 1, sleepy)
	b.rounds(10 * time.Minute)
	b.is("kept", kept, 1, 1)
	other := b.serve("other", 0, 1, sleepy, vision)
	b.load(other, 1, 0)
	b.rounds(10 * time.Minute)
	b.is("in the minimum", kept, 1, 1)
	if rep := b.explain(other); rep.Status.Ready != 0 || !strings.Contains(rep.Note, "no idle replica") {
		t.Errorf("who found no card: %d ready, %q", rep.Status.Ready, rep.Note)
	}
	b.warm(24, 0)
	b.rounds(2 * period)
	b.is("out of it", kept, 0, 1)
	if rep := b.explain(other); rep.Status.Ready != 1 {
		t.Errorf("who found no card is not ready: %+v", rep.Status)
	}
	b.warm(24, 1)
	b.rounds(10 * time.Minute)
	b.is("no card has room to wake it", kept, 0, 1)
	if why := b.pool().Plan.Classes[0].Why; !strings.Contains(why, "have room") {
		t.Errorf("the pool says %q", why)
	}
}

// Room on a cluster is asked for by class, paid for while it is there, and
// given up when the budget is spent.
func TestBuffersAreKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var asked [][]scaler.Buffer
	broken := false
	b.cfg.Buffers = func(_ context.Context, want []scaler.Buffer) ([]int, error) {
		if broken {
			return nil, errors.New("the API server is away")
		}
		asked = append(asked, slices.Clone(want))
		have := make([]int, len(want))
		for i, w := range want {
			have[i] = min(w.Count, 1) // the second one waits for a node
		}
		return have, nil
	}
	b.restart()
	large := func(c *modelspec.WarmClass) { c.Buffers, c.GPUMemory, c.GPUs = 2, 8192, 2 }
	b.warm(100, 0, large)
	b.rounds(20 * time.Minute)
	want := scaler.Buffer{Pool: budget.DefaultPool, Class: modelspec.ClassLLM, Count: 2, GPUMemory: 8192, GPUs: 2}
	if len(asked) == 0 || len(asked[0]) != 1 || asked[0][0] != want {
		t.Fatalf("asked for %+v first, want %+v", asked[:min(1, len(asked))], want)
	}
	p := b.pool()
	if spent := p.Day.GPUHours(); spent < 0.6 || spent > 0.7 || p.Day.Buffers[modelspec.ClassLLM] != 1 || !p.Buffered {
		t.Errorf("one of two with two cards for 20 minutes: %.3f GPU-hours, %+v", spent, p.Day)
	}
	b.warm(0.7, 0, large)
	b.rounds(20 * time.Minute)
	if last := asked[len(asked)-1]; last[0].Count != 0 || b.pool().Day.Buffers[modelspec.ClassLLM] != 0 {
		t.Errorf("the budget is spent and %+v is asked for", last)
	}
	broken = true
	b.pass(time.Minute)
	if err := b.scaler.Round(b.Context()); err == nil || !strings.Contains(err.Error(), "the API server is away") {
		t.Errorf("got %v", err)
	}
	broken = false
	b.must(second(b.ledger.SetWarm(b.Context(), budget.DefaultPool, modelspec.WarmPool{})))
	b.round()
	if last := asked[len(asked)-1]; len(last) != 0 {
		t.Errorf("the pool keeps nothing and %+v is asked for", last)
	}
}

// A wake that another process handled counts as one's own: in the account of
// the pool, and for the rates.
func TestAnotherProcessWakes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.warm(24, 0)
	other := scaler.New(b.cfg)
	one := b.serve("one", 0, 8, sleepy)
	b.rounds(10 * time.Minute)
	b.is("before", one, 0, 1)
	b.load(one, 40, 0)
	b.must(other.Wake(b.Context(), traffic.Wake{Owner: one.Tenant, Model: one.ID, RequestID: one.ID}))
	b.is("woken", one, 1, 1)
	b.pass(period)
	b.round() // it is paid for, and then asked for
	b.round()
	b.is("four more within 15 s, of which the wake was one", one, 4, 4)
	b.rounds(period)
	p := b.pool()
	if wait, known := p.Day.P99(); p.Day.Counts[elastic.ActivatedWarm] != 1 || !known || wait < 4*time.Second || wait > 8*time.Second {
		t.Errorf("one was woken, and its caller waited for %s: %+v, p99 %s", period, p.Day, wait)
	}
}

// Each caller's wake is counted once, whichever processes scale in turn.
func TestWakesAreCountedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.warm(24, 0)
	one := b.serve("one", 0, 1, sleepy)
	over, end := context.WithCancel(t.Context())
	end()
	wakes := func(want int) {
		t.Helper()
		b.rounds(10 * time.Minute)
		b.is("before it is called", one, 0, 1)
		b.load(one, 1, 0)
		b.must(b.scaler.Wake(b.Context(), traffic.Wake{Owner: one.Tenant, Model: one.ID, RequestID: one.ID}))
		b.pass(period)
		b.rounds(2 * period)
		b.load(one, 0, 0)
		if day := b.pool().Day; day.Counts[elastic.ActivatedWarm] != want {
			t.Errorf("%d wakes are counted, want %d: %+v", day.Counts[elastic.ActivatedWarm], want, day)
		}
	}
	first := b.scaler
	wakes(1)
	first.Run(over, nil) // it ends at once, in order
	b.restart()
	wakes(2)
	b.scaler.Run(over, nil)
	b.scaler = first // its turn again
	wakes(3)
}

func second[T any](_ T, err error) error { return err }
