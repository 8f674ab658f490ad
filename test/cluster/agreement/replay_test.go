//go:build cluster

package agreement

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"modeldock.io/internal/elastic/simulate"
	"modeldock.io/test/scenario"
)

// most is how far the two sides may be apart. Of late ones it is a share of all
// requests: whether a burst of twenty is late hangs on the tenths of a second by
// which a start comes before it.
const most = 0.10

// slack is the part by which chunks may come slower than the engine was told.
const slack = 8

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
	was, end := p.replay(trace)
	was.Name = name
	m.Token = was.Streaming / time.Duration(followers(trace)) // as slow as this machine was meanwhile
	says, err := Simulated(trace, m, end)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %s\n%d requests within %s, late after %s:\n%s\n%s", name, m, len(trace), trace[len(trace)-1].At.Round(time.Second), objective, was, says)
	if d := Apart(was.GPUSeconds, says.GPUSeconds); d > most {
		t.Errorf("%.1f GPU-seconds here, %.1f in the simulator: %.0f %% apart, at most %.0f %% are agreed on", was.GPUSeconds, says.GPUSeconds, 100*d, 100*most)
	}
	// What replicas cost follows from how fast the machine is; who is late on a
	// machine that does not keep up, from what else runs on it.
	kept := m.Token <= perToken+perToken/slack
	if d := math.Abs(float64(was.Late()-says.Late())) / float64(len(trace)); kept && d > most {
		t.Errorf("%d late first chunks here, %d in the simulator: that is %.0f %% of the requests apart, at most %.0f %% are agreed on", was.Late(), says.Late(), 100*d, 100*most)
	}
	if !kept {
		t.Errorf("late first chunks were not compared: chunks came every %s instead of every %s; run this where nothing else runs", m.Token.Round(time.Millisecond), perToken)
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
	var starts, leads, stops, firsts []time.Duration
	for range 3 {
		stops = append(stops, p.sleeps())
		cold, lead, err1 := p.wakes()
		warm, err2 := p.ask(time.Now(), 1)
		if err := errors.Join(err1, err2); err != nil {
			p.t.Fatal(err)
		}
		firsts, leads = append(firsts, warm.first), append(leads, lead)
		starts = append(starts, cold.first-warm.first)
	}
	stops = append(stops, p.sleeps())
	return Measured{Start: middle(starts), Lead: slices.Min(leads), Stop: middle(stops), First: middle(firsts)}
}

// wakes calls the sleeping model, and tells how long its replica took from when
// it was there until it was ready.
func (p platform) wakes() (a answer, lead time.Duration, err error) {
	p.t.Helper()
	began, over := time.Now(), make(chan struct{})
	go func() {
		defer close(over)
		a, err = p.ask(began, 1)
	}()
	scenario.Eventually(p.t, "a replica", func() bool { return p.h.Engines(p.t, tenant, served) > 0 }, func() any { return p.a.Scaling(served) })
	there := time.Now()
	p.a.Ready(served)
	lead = time.Since(there)
	<-over
	return a, lead, err
}

func middle(of []time.Duration) time.Duration {
	slices.Sort(of)
	return of[(len(of)-1)/2]
}

// followers are all chunks but the first ones.
func followers(trace []simulate.Request) (n int) {
	for _, q := range trace {
		n += q.Answer - 1
	}
	return n
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

// answer is when its first chunk came, and its end.
type answer struct{ first, end time.Duration }

// ask calls the model for an answer of so many tokens and tells how long after
// since it came.
func (p platform) ask(since time.Time, tokens int) (a answer, err error) {
	s := p.a.Chat(context.Background(), served, map[string]any{"max_tokens": tokens}, func(chunk int) {
		if chunk == 1 {
			a.first = time.Since(since)
		}
	})
	a.end = time.Since(since)
	if s.Status != http.StatusOK || !s.Done || s.Chunks != tokens {
		return a, fmt.Errorf("a call for %d tokens: %+v", tokens, s)
	}
	return a, nil
}

// replay sends every request at its time, whatever became of those before it,
// and counts what the replicas held until the last answer had ended.
func (p platform) replay(trace []simulate.Request) (side Side, end time.Duration) {
	p.t.Helper()
	side.Firsts = make([]time.Duration, len(trace))
	ended := make([]time.Duration, len(trace))
	began := time.Now()
	var all sync.WaitGroup
	for i, q := range trace {
		all.Go(func() {
			at := began.Add(q.At)
			time.Sleep(time.Until(at))
			a, err := p.ask(at, q.Answer)
			if err != nil {
				p.t.Error(err)
			}
			side.Firsts[i], ended[i] = a.first, a.end
		})
	}
	over := make(chan struct{})
	go func() { all.Wait(); close(over) }()
	end = p.count(&side, began, over)
	for i := range trace {
		side.Streaming += ended[i] - side.Firsts[i]
	}
	return side, end
}

// count looks at the replicas that live until all is over: a replica costs from
// when it is there until it is gone.
func (p platform) count(side *Side, began time.Time, over <-chan struct{}) (before time.Duration) {
	p.t.Helper()
	tick := time.NewTicker(look)
	defer tick.Stop()
	n := 0
	for {
		now := time.Since(began)
		side.GPUSeconds += float64(n) * (now - before).Seconds()
		last := n
		n, before = p.h.Engines(p.t, tenant, served), now
		side.Starts += max(0, n-last)
		for time.Duration(len(side.Course))*time.Second < now {
			side.Course = append(side.Course, n)
		}
		select {
		case <-over:
			return before
		case <-tick.C:
		}
	}
}

// steps are the decisions, for whoever looks for the reason of a difference.
func (p platform) steps() (text string) {
	for _, d := range slices.Backward(p.a.Scaling(served).Items) {
		text += fmt.Sprintf("  %s %d to %d, %s: %s\n", d.At.Format(time.TimeOnly), d.From, d.To, d.Reason, d.Message)
	}
	return text
}
