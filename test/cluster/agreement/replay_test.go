//go:build cluster

package agreement

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"modeldock.io/internal/elastic/simulate"
	"modeldock.io/test/scenario"
)

// most is how far the two sides may be apart.
const most = 0.10

const (
	tenant = "team-a"
	served = "replayed"
	look   = 250 * time.Millisecond // between two counts of the replicas
)

// agree replays the trace on a platform and in the simulator, and fails if they
// say something else.
func agree(t *testing.T, h scenario.Harness, name string) {
	trace, err := Trace()
	if err != nil {
		t.Fatal(err)
	}
	p := platform{t: t, h: h, a: scenario.As(t, h, tenant)}
	scenario.As(t, h, "admin").Must(http.StatusOK, http.MethodPut, "/tenants/"+tenant+"/quota", map[string]any{"cap": mostAtOnce})
	p.a.Submit(served, 1, map[string]any{"model": Model(served)})
	p.a.Ready(served)
	m := p.measure()
	t.Logf("%s: %s to start, %s to stop", name, m.Start.Round(time.Millisecond), m.Stop.Round(time.Millisecond))
	says, end, err := Simulated(trace, m)
	if err != nil {
		t.Fatal(err)
	}
	was := p.replay(trace, end)
	was.Name = name
	t.Logf("%d requests within %s, late after %s:\n%s\n%s", len(trace), trace[len(trace)-1].At.Round(time.Second), objective, was, says)
	if d := Apart(was.GPUSeconds, says.GPUSeconds); d > most {
		t.Errorf("%.1f GPU-seconds here, %.1f in the simulator: %.0f %% apart, at most %.0f %% are agreed on", was.GPUSeconds, says.GPUSeconds, 100*d, 100*most)
	}
	if d := Apart(was.Late(), says.Late()); d > most {
		t.Errorf("%d late first chunks here, %d in the simulator: %.0f %% apart, at most %.0f %% are agreed on", was.Late(), says.Late(), 100*d, 100*most)
	}
	if t.Failed() {
		t.Logf("what scaled it:\n%s", p.steps())
	}
}

// platform is where the model really runs.
type platform struct {
	t *testing.T
	h scenario.Harness
	a scenario.Caller
}

// measure has the model sleep and wake a few times, and tells the middle of
// what that took. The model is asleep afterwards.
func (p platform) measure() Measured {
	p.t.Helper()
	var starts, stops []time.Duration
	for range 3 {
		stops = append(stops, p.sleeps())
		took, err := p.ask(time.Now(), 1)
		if err != nil {
			p.t.Fatal(err)
		}
		starts = append(starts, took-firstToken)
	}
	stops = append(stops, p.sleeps())
	slices.Sort(starts)
	slices.Sort(stops)
	return Measured{Start: starts[1], Stop: stops[1]}
}

// sleeps waits until the model sleeps, and tells for how long its replica was
// still there after that was decided.
func (p platform) sleeps() time.Duration {
	p.t.Helper()
	p.a.UntilScaled(served, "sleep", func(s scenario.Scaling) bool { return s.Wanted == 0 })
	since := time.Now()
	scenario.Eventually(p.t, "the end of its replica", func() bool { return p.h.Engines(p.t, tenant, served) == 0 }, func() any { return p.a.Scaling(served) })
	return time.Since(since)
}

// ask calls the model for an answer of so many tokens and tells how long after
// since its first chunk came.
func (p platform) ask(since time.Time, tokens int) (first time.Duration, err error) {
	s := p.a.Chat(context.Background(), served, map[string]any{"max_tokens": tokens}, func(chunk int) {
		if chunk == 1 {
			first = time.Since(since)
		}
	})
	if s.Status != http.StatusOK || !s.Done || s.Chunks != tokens {
		return first, fmt.Errorf("a call for %d tokens: %+v", tokens, s)
	}
	return first, nil
}

// replay sends every request at its time, whatever became of those before it,
// and counts what the replicas held until the end.
func (p platform) replay(trace []simulate.Request, end time.Duration) Side {
	p.t.Helper()
	side := Side{Firsts: make([]time.Duration, len(trace))}
	began := time.Now()
	var all sync.WaitGroup
	for i, q := range trace {
		all.Go(func() {
			at := began.Add(q.At)
			time.Sleep(time.Until(at))
			first, err := p.ask(at, q.Answer)
			if err != nil {
				p.t.Error(err)
			}
			side.Firsts[i] = first
		})
	}
	p.count(&side, began, end)
	all.Wait()
	return side
}

// count looks at the replicas that live until the end: a replica costs from
// when it is there until it is gone.
func (p platform) count(side *Side, began time.Time, end time.Duration) {
	p.t.Helper()
	tick := time.NewTicker(look)
	defer tick.Stop()
	before, n := time.Duration(0), 0
	for before < end {
		now := min(time.Since(began), end)
		side.GPUSeconds += float64(n) * (now - before).Seconds()
		last := n
		n, before = p.h.Engines(p.t, tenant, served), now
		side.Starts += max(0, n-last)
		for time.Duration(len(side.Course))*time.Second < now {
			side.Course = append(side.Course, n)
		}
		<-tick.C
	}
}

// steps are the decisions, for whoever looks for the reason of a difference.
func (p platform) steps() (text string) {
	for _, d := range slices.Backward(p.a.Scaling(served).Items) {
		text += fmt.Sprintf("  %s %d to %d, %s: %s\n", d.At.Format(time.TimeOnly), d.From, d.To, d.Reason, d.Message)
	}
	return text
}
