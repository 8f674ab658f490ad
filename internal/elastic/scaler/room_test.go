package scaler_test

import (
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/elastic"
	"modeldock.io/internal/elastic/scaler"
	"modeldock.io/internal/modelspec"
	"modeldock.io/internal/traffic"
)

func (b *bench) wake(ref budget.Ref) {
	b.Helper()
	b.load(ref, 1, 0)
	b.must(b.scaler.Wake(b.Context(), traffic.Wake{Owner: ref.Tenant, RequestID: ref.ID}))
}

func (b *bench) running(ref budget.Ref) int {
	b.Helper()
	st, err := b.Observe(b.Context(), ref)
	b.must(err)
	return st.Ready
}

// sized is a model of so much memory.
func sized(mib int64) func(*budget.Submission) {
	return func(s *budget.Submission) { s.Model.GPUMemory = mib }
}

// TestMakesRoom: a model that wakes on a full card gets that of an idle one,
// which keeps its slots; both sides say so; and they do not swap in turn.
func TestMakesRoom(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.cardMiB = 10000
	first := b.serve("first", 0, 1, sized(8000))
	b.rounds(5 * time.Second)
	second := b.serve("second", 0, 1, sized(8000))
	b.load(second, 1, 0)
	b.rounds(30 * time.Second)
	if b.running(first) != 1 || b.running(second) != 0 {
		t.Fatal("a model lost its card within its residence")
	}
	if rep := b.explain(second); !strings.Contains(rep.Note, "8000 MiB") || !strings.Contains(rep.Note, "1m0s") {
		t.Errorf("the one who waits is not told why: %q", rep.Note)
	}
	b.rounds(elastic.MinResidence)
	if b.running(first) != 0 || b.running(second) != 1 {
		t.Fatalf("first runs %d, second %d", b.running(first), b.running(second))
	}
	b.is("only the card changed hands", first, 0, 1)
	given, taken := b.explain(first).Steps, b.explain(second).Steps
	if s := given[len(given)-1]; s.Reason != scaler.ReasonYielded || !strings.Contains(s.Message, "team-a/second") {
		t.Errorf("who gave it says %+v", s)
	}
	if s := taken[len(taken)-1]; s.Reason != scaler.ReasonMadeRoom || !strings.Contains(s.Message, "team-a/first") {
		t.Errorf("who got it says %+v", s)
	}

	// Both are called all the time, a little: they share the card in turn, and
	// each has it for its residence at least.
	swaps, last := 0, b.clock()
	for range 120 {
		for _, ref := range []budget.Ref{first, second} {
			if b.running(ref) == 0 {
				b.wake(ref)
			} else {
				b.load(ref, 0, 0)
			}
		}
		before := b.running(first)
		b.round()
		if b.running(first) != before {
			if since := b.clock().Sub(last); swaps > 0 && since < elastic.MinResidence/2 {
				t.Errorf("swapped after %s", since)
			}
			swaps, last = swaps+1, b.clock()
		}
		b.pass(5 * time.Second)
	}
	if swaps < 4 || swaps > 25 {
		t.Errorf("%d changes in ten minutes: they do not share the card, or thrash", swaps)
	}
}

// TestNobodyYieldsWhoMustNot: a request in flight, a higher priority, a warm
// minimum, a count that is not ours, a gateway that is not heard.
func TestNobodyYieldsWhoMustNot(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		least  int
		change func(*budget.Submission)
		after  func(*bench, budget.Ref)
	}{
		"busy":       {after: func(b *bench, r budget.Ref) { b.load(r, 0, 1) }},
		"higher":     {change: func(s *budget.Submission) { s.Priority = 51 }},
		"warm":       {least: 1},
		"a person's": {change: func(s *budget.Submission) { s.Model.Scaling = &modelspec.Scaling{Actuator: modelspec.ActuatorNone} }},
		"paused":     {change: func(s *budget.Submission) { s.Model.Scaling = &modelspec.Scaling{Paused: true} }},
		"unheard":    {after: func(b *bench, _ budget.Ref) { b.mu.Lock(); b.loads.Unheard = []string{"g"}; b.mu.Unlock() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.cardMiB = 10000
			change := []func(*budget.Submission){sized(8000)}
			if c.change != nil {
				change = append(change, c.change)
			}
			holder := b.serve("holder", c.least, 2, change...)
			b.rounds(2 * time.Minute)
			waker := b.serve("waker", 0, 1, sized(8000))
			b.load(waker, 1, 0)
			for range 20 {
				if c.after != nil {
					c.after(b, holder)
				}
				b.rounds(5 * time.Second)
			}
			if b.running(holder) != 1 || b.running(waker) != 0 {
				t.Errorf("holder runs %d, waker %d", b.running(holder), b.running(waker))
			}
			if rep := b.explain(waker); rep.Note == "" {
				t.Error("the one who waits is not told why")
			}
		})
	}
}
