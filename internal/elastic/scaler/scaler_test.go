package scaler_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/elastic"
	"modeldock.io/internal/modelspec"
	"modeldock.io/internal/traffic"
)

// kvKnown makes the engines say that their caches are empty.
func (b *bench) kvKnown(ref budget.Ref, share float64) {
	st, err := b.Observe(b.Context(), ref)
	b.must(err)
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.loads.Of[ref]
	l.Replicas = nil
	for _, r := range st.Replicas {
		if r.UID != "" {
			l.Replicas = append(l.Replicas, traffic.ReplicaLoad{UID: r.UID, KVUsage: &share})
		}
	}
	b.loads.Of[ref] = l
}

// told makes rounds in which the engines keep answering.
func (b *bench) told(ref budget.Ref, d time.Duration) {
	b.Helper()
	for end := b.clock().Add(d); b.clock().Before(end); b.pass(5 * time.Second) {
		b.kvKnown(ref, 0.1)
		b.round()
	}
}

// TestGrowsAndShrinksWithTheLoad: what runs follows the load, each replica is
// paid for before it starts, and what is not needed is given back.
func TestGrowsAndShrinksWithTheLoad(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.serve("m", 1, 5)
	b.told(ref, time.Minute)
	b.is("no load", ref, 1, 1)
	b.load(ref, 6, 4) // at two per replica
	b.told(ref, time.Minute)
	b.is("ten at once", ref, 5, 5)
	if d := b.latest(ref); d.Replicas != 5 || len(d.Inputs) == 0 || d.Inputs[0].Value == nil {
		t.Errorf("the latest decision: %+v", d)
	}
	b.load(ref, 0, 0)
	b.told(ref, 30*time.Second)
	b.is("a pause shorter than the window", ref, 5, 5)
	b.told(ref, 10*time.Minute)
	b.is("quiet", ref, 1, 1)
	rep := b.explain(ref)
	for i, s := range rep.Steps {
		if s.Reason == "" || s.Message == "" || i > 0 && s.From != rep.Steps[i-1].To {
			t.Errorf("step %d: %+v", i, s)
		}
	}
}

// TestNeverBeyondTheBudget: a refused growth says so with figures, takes what
// there is, and goes on by itself when slots come free.
func TestNeverBeyondTheBudget(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.quota("team-a", 3)
	ref := b.serve("m", 1, 5)
	b.load(ref, 20, 4)
	b.told(ref, time.Minute)
	b.is("three slots", ref, 3, 3)
	d := b.latest(ref)
	if d.Reason != elastic.ReasonBudget || !slices.Contains(d.LimitedBy, elastic.ReasonBudget) || !strings.Contains(d.Message, "holds 3 of 3 slots") {
		t.Errorf("without figures: %+v", d)
	}
	b.quota("team-a", 4)
	b.kvKnown(ref, 0.1)
	b.round()
	b.is("one more slot, on its way to the object", ref, 3, 4)
	b.round()
	b.is("one more slot", ref, 4, 4)
}

// TestMissingMetricsShrinkNothing: C128. An engine, or a gateway, that says
// nothing is not an engine without work; growth goes on by what is known.
func TestMissingMetricsShrinkNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.serve("m", 1, 8)
	b.load(ref, 0, 6)
	b.told(ref, time.Minute)
	b.is("six at once", ref, 3, 3)

	b.load(ref, 0, 0)
	b.mu.Lock() // the engines' metrics go away
	l := b.loads.Of[ref]
	l.Replicas = nil
	b.loads.Of[ref] = l
	b.mu.Unlock()
	b.rounds(6 * time.Minute)
	b.is("engines silent for longer than any window", ref, 3, 3)
	if d := b.latest(ref); d.Reason != elastic.ReasonMissing || !slices.Contains(d.Missing, elastic.MetricKVCache) {
		t.Errorf("it does not say what is missing: %+v", d)
	}

	b.mu.Lock() // a gateway goes away
	b.loads.Unheard = []string{"gateway http://10.0.0.7:8084"}
	b.mu.Unlock()
	b.told(ref, 6*time.Minute)
	b.is("a gateway silent for as long", ref, 3, 3)
	if d := b.latest(ref); d.Reason != elastic.ReasonMissing {
		t.Errorf("it does not say so: %+v", d)
	}
	b.load(ref, 10, 2)
	b.told(ref, time.Minute)
	b.is("the others see more work", ref, 6, 6)

	b.load(ref, 0, 0)
	b.mu.Lock()
	b.loads.Unheard = nil
	b.mu.Unlock()
	b.told(ref, 10*time.Minute)
	b.is("all are back", ref, 1, 1)
}

func sleepsAfter(idle time.Duration) func(*budget.Submission) {
	return func(s *budget.Submission) { s.Model.Scaling = &modelspec.Scaling{IdleSeconds: int(idle / time.Second)} }
}

// TestSleepsAndWakes: idle is counted from Ready and by the last request, the
// slots stay held, and any number of gateways wake it once.
func TestSleepsAndWakes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const idle = time.Minute
	ref := b.serve("m", 0, 3, sleepsAfter(idle))
	b.rounds(idle - 10*time.Second)
	b.is("not idle for long enough", ref, 1, 1)
	b.rounds(30 * time.Second)
	b.is("never called", ref, 0, 1)
	b.rounds(5 * time.Minute)
	b.is("asleep", ref, 0, 1)
	for cycle := range 10 {
		b.mu.Lock()
		b.attempts = 0
		b.mu.Unlock()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if err := b.scaler.Wake(t.Context(), traffic.Wake{Owner: "team-a", RequestID: "m", ObjectUID: "uid-m"}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		b.is("woken", ref, 1, 1)
		if b.attempts != 1 {
			t.Errorf("cycle %d: %d writes for one wake", cycle, b.attempts)
		}
		b.load(ref, 0, 1)
		b.rounds(idle + 20*time.Second)
		b.is("a stream runs", ref, 1, 1)
		b.load(ref, 0, 0)
		b.rounds(idle + 20*time.Second)
		b.is("asleep again", ref, 0, 1)
	}
	if err := b.scaler.Wake(t.Context(), traffic.Wake{Owner: "team-a", RequestID: "m", ObjectUID: "another"}); err != nil {
		t.Error(err)
	}
	b.is("somebody called an object that is gone", ref, 0, 1)
	steps := b.explain(ref).Steps
	if last := steps[len(steps)-1]; last.Reason != elastic.ReasonIdle || len(steps) > delivery.MaxScalingSteps {
		t.Errorf("%d steps, the last %+v", len(steps), last)
	}
}

// TestKilledAtAnyPoint: whatever a kill cut off is done, or undone, by the next
// process, and nothing shrinks before it has watched for one down window.
func TestKilledAtAnyPoint(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.serve("m", 1, 5)
	b.told(ref, 5*time.Minute)
	b.load(ref, 6, 4)
	b.mu.Lock()
	b.fail = func() error { return errors.New("killed after the debit") }
	b.mu.Unlock()
	b.kvKnown(ref, 0.1)
	b.round()
	if err := b.scaler.Round(t.Context()); err == nil {
		t.Error("the count was not written, and nobody says so")
	}
	b.is("paid for and not written", ref, 1, 5)
	b.mu.Lock()
	b.fail = nil
	b.mu.Unlock()
	b.restart()
	b.kvKnown(ref, 0.1)
	b.round()
	b.is("the next process writes it", ref, 5, 5)

	b.load(ref, 0, 0)
	window := elastic.For(modelspec.ClassLLM, modelspec.WorkloadOnline, 4).Behavior.Down.Window
	for range 5 { // restarted again and again, each time within the window
		b.told(ref, window-20*time.Second)
		b.is("within the window", ref, 5, 5)
		b.restart()
	}
	b.told(ref, window+30*time.Second)
	if d := b.latest(ref); d.Replicas >= 5 {
		t.Errorf("it never shrinks: %+v", d)
	}
	_, err := b.ledger.Grow(t.Context(), ref, 5) // killed between a lower count and giving back
	b.must(err)
	b.restart()
	b.told(ref, 10*time.Minute)
	b.is("given back", ref, 1, 1)
}

// TestWhoWrites: under another actuator, or paused, ModelDock recommends and
// pays for what is asked for; between 0 and 1 it acts unless a person does.
func TestWhoWrites(t *testing.T) {
	t.Parallel()
	b := setup(t)
	by := func(a modelspec.Actuator, paused bool) func(*budget.Submission) {
		return func(s *budget.Submission) {
			s.Model.Scaling = &modelspec.Scaling{Actuator: a, Paused: paused, IdleSeconds: 60}
		}
	}
	hpa, none, paused := b.serve("hpa", 0, 5, by(modelspec.ActuatorHPA, false)), b.serve("none", 0, 5, by(modelspec.ActuatorNone, false)), b.serve("paused", 0, 5, by("", true))
	all := []budget.Ref{hpa, none, paused}
	for _, ref := range all {
		b.load(ref, 4, 4)
	}
	for range 12 {
		for _, ref := range all {
			b.kvKnown(ref, 0.1)
		}
		b.rounds(5 * time.Second)
	}
	for _, ref := range all {
		b.is("nobody else wrote", ref, 1, 1)
		if d := b.latest(ref); d.Replicas <= 1 {
			t.Errorf("%s: the recommendation is not shown: %+v", ref.ID, d)
		}
	}
	for _, ref := range []budget.Ref{hpa, none} { // as an autoscaler, or a person, does
		b.must(b.Scale(t.Context(), ref, delivery.ScalingStep{From: 1, To: 3}))
	}
	b.rounds(10 * time.Second)
	b.is("an HPA's count is paid for", hpa, 3, 3)
	b.is("a person's count is paid for", none, 3, 3)
	b.quota("team-a", 7)
	b.must(b.Scale(t.Context(), hpa, delivery.ScalingStep{From: 3, To: 5}))
	b.rounds(5 * time.Second)
	b.is("an HPA cannot outgrow the budget", hpa, 5, 3)
	if d := b.latest(hpa); d.Reason != elastic.ReasonBudget || !strings.Contains(d.Message, "holds 7 of 7 slots") {
		t.Errorf("and it is not told: %+v", d)
	}
	for _, ref := range all {
		b.load(ref, 0, 0)
	}
	b.rounds(5 * time.Minute)
	b.is("to zero by ModelDock", hpa, 0, 1)
	b.is("left to the person", none, 3, 3)
	b.is("paused", paused, 1, 1)
	b.must(b.Scale(t.Context(), none, delivery.ScalingStep{From: 3, To: 0}))
	b.must(b.Scale(t.Context(), paused, delivery.ScalingStep{From: 1, To: 0}))
	for _, ref := range all {
		b.must(b.scaler.Wake(t.Context(), traffic.Wake{Owner: ref.Tenant, RequestID: ref.ID}))
	}
	b.is("woken", hpa, 1, 1)
	b.is("a person wakes it", none, 0, 3)
	b.is("paused stays", paused, 0, 1)
}

// TestFixedAndEndingModelsAreLeftAlone: no room between min and max, or a
// release under way: nothing is written.
func TestFixedAndEndingModelsAreLeftAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fixed, ending := b.serve("fixed", 2, 2), b.serve("ending", 1, 4)
	b.load(fixed, 50, 8)
	b.load(ending, 50, 8)
	_, err := b.ledger.RequestRelease(t.Context(), ending)
	b.must(err)
	b.rounds(time.Minute)
	if b.attempts != 0 {
		t.Errorf("%d writes", b.attempts)
	}
	if rep := b.explain(fixed); rep.Latest != nil {
		t.Errorf("a decision for a count that cannot change: %+v", rep.Latest)
	}
}

// TestNothingToScaleCostsNoList: with fixed models alone the objects are not
// looked at again, until one comes that can be scaled.
func TestNothingToScaleCostsNoList(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.serve("fixed", 2, 2)
	b.rounds(time.Minute)
	if n := b.listed(); n != 1 {
		t.Errorf("the objects were listed %d times", n)
	}
	ref := b.serve("m", 1, 5)
	b.load(ref, 6, 4)
	b.round()
	if n := b.listed(); n != 2 {
		t.Errorf("the objects were listed %d times", n)
	}
	b.told(ref, time.Minute)
	b.is("ten at once", ref, 5, 5)
}

// TestABacklogOfAColdStartOrdersNoMore: what piled up while a replica started
// is gone soon after it is there; what stays is work for more of them.
func TestABacklogOfAColdStartOrdersNoMore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.serve("m", 1, 8)
	say := func(waiting, inFlight, recent int, oldest time.Duration) {
		b.load(ref, waiting, inFlight)
		b.mu.Lock()
		defer b.mu.Unlock()
		l := b.loads.Of[ref]
		l.Recent, l.OldestWait = &recent, oldest
		b.loads.Of[ref] = l
	}
	say(20, 2, 2, 2*time.Second)
	b.told(ref, time.Minute)
	b.is("a backlog that is young", ref, 1, 1)
	say(20, 4, 4, time.Minute)
	b.told(ref, 2*time.Minute)
	b.is("a backlog that stays", ref, 8, 8)
}

// TestAnotherAutoscaler: while somebody else's scales the object, ModelDock
// pays for what that asks for and writes nothing; afterwards it acts again.
func TestAnotherAutoscaler(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.serve("m", 1, 5)
	b.told(ref, time.Minute)
	o := b.objects[ref]
	o.other, o.asked = "HorizontalPodAutoscaler theirs", 2
	b.load(ref, 6, 4)
	b.told(ref, time.Minute)
	b.is("theirs asks for two", ref, 2, 2)
	if d := b.latest(ref); d.Replicas != 5 {
		t.Errorf("what is recommended is not kept: %+v", d)
	}
	o.other = ""
	b.told(ref, time.Minute)
	b.is("it is gone", ref, 5, 5)
}

// TestSignals: what autoscalers outside are told, and that nothing is told of
// a model of which no gateway speaks.
func TestSignals(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.serve("m", 1, 5)
	b.round()
	b.load(ref, 6, 4)
	b.kvKnown(ref, 0.5)
	in, err := b.scaler.Signals(b.Context(), ref)
	b.must(err)
	if q := in.Values[elastic.MetricQueue].Total; in.Blind || q == nil || *q != 6 || len(in.Values[elastic.MetricKVCache].Replica) != 1 {
		t.Errorf("signals %+v", in)
	}
	delete(b.loads.Of, ref)
	if in, err = b.scaler.Signals(b.Context(), ref); err != nil || !in.Blind || in.Values[elastic.MetricQueue].Total != nil {
		t.Errorf("signals of an unheard model: %+v, %v", in, err)
	}
}

// TestANewMinimumIsNotTakenBack: it reaches ledger and object while a round
// reads; that round must not know it from the object alone.
func TestANewMinimumIsNotTakenBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.serve("m", 1, 4)
	b.round()
	b.pass(period)
	b.meanwhile = func() { b.patch(ref, 2) }
	b.round()
	b.is("two at least from now on", ref, 2, 2)
	if n := len(b.explain(ref).Steps); n != 0 {
		t.Errorf("%d steps were made by the scaler", n)
	}
}
