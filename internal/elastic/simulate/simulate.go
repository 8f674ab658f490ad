// Package simulate replays a trace of requests through the decisions of
// internal/elastic (delivery account) with a clock of its own and a model of
// cold starts and service times. Pure and deterministic.
package simulate

import (
	"container/heap"
	"errors"
	"fmt"
	"time"

	"modeldock.io/internal/elastic"
	"modeldock.io/internal/modelspec"
)

// Model is how one replica behaves.
type Model struct {
	ColdStart   time.Duration // from the decision to Ready
	Wake        time.Duration // the same of a replica that sleeps in host memory
	Stop        time.Duration // from the decision to end it until its cards are free, if no stream takes longer
	Concurrency int           // requests at once
	FirstChunk  time.Duration // of an empty prompt
	PromptRate  float64       // prompt tokens per second
	PerToken    time.Duration // of an answer, after the first
	Objective   time.Duration // a first chunk later than this is late
	GPUs        int           // per replica
	// Warmup is the begin of a trace that policies see and learn from, and
	// that counts in no figure.
	Warmup time.Duration
}

// DefaultModel is a usual one of its class on one card: a language model of
// some 7 billion parameters, or a model that answers at once.
func DefaultModel(class modelspec.Class) Model {
	m := Model{ColdStart: time.Minute, Wake: 3 * time.Second, Concurrency: elastic.Concurrency(class), FirstChunk: 50 * time.Millisecond, PromptRate: 8000, PerToken: 30 * time.Millisecond, Objective: 2 * time.Second, GPUs: 1}
	switch class {
	case modelspec.ClassVision:
		m.ColdStart, m.FirstChunk, m.PerToken, m.Objective = 30*time.Second, 300*time.Millisecond, 0, time.Second
	case modelspec.ClassRecommender:
		m.ColdStart, m.FirstChunk, m.PerToken, m.Objective = 10*time.Second, 20*time.Millisecond, 0, 500*time.Millisecond
	}
	return m
}

// first is how long a request takes to its first chunk once it is served.
func (m Model) first(q Request) time.Duration {
	return m.FirstChunk + time.Duration(float64(q.Prompt)/m.PromptRate*float64(time.Second))
}

// Policy is a named way to decide, asked every Period.
type Policy struct {
	Name   string
	Spec   elastic.Spec
	Period time.Duration
	// Watches has it asked sooner, too, when a replica begins, is ready or
	// gone, as ModelDock's scaler does.
	Watches bool
	// Signals is how often engines are asked for what only they know; 0: they
	// are always heard.
	Signals time.Duration
	// Asleep is how many replicas beyond the wanted ones stay loaded in host
	// memory when they are given up; the next ones are woken. They hold no card.
	Asleep int
	// Fitted is Spec where replicas sleep, by where they stand; nil: Spec always.
	Fitted func(elastic.Ladder) elastic.Spec
	// Plan decides instead of the engine, if there is one.
	Plan func(at time.Duration, replicas int) int
	// Stopped ends the replay with ErrStopped once it says so; nil: it runs to
	// its end.
	Stopped func() bool
}

// ErrStopped is the answer of a replay that was stopped.
var ErrStopped = errors.New("the simulation was stopped")

// What ModelDock's scaler and gateways do by default.
const (
	ownPeriod  = 2 * time.Second
	ownSignals = 2 * time.Second
)

// Own is a policy as ModelDock's scaler follows it by default.
func Own(name string, s elastic.Spec) Policy {
	return Policy{Name: name, Spec: s, Period: ownPeriod, Watches: true, Signals: ownSignals}
}

// Point is the state at one moment.
type Point struct {
	At                                time.Duration
	Replicas, Ready, Waiting, Running int
	Held                              int // replicas whose cards are taken, those that end included
	Asleep                            int // replicas that are loaded in host memory
	ColdStarts, Wakes                 int // until then
}

type replica struct {
	born, ready time.Duration
	running     int
	woken       bool // and not started
	ending      bool
	until       time.Duration // it holds its cards, once it is ending
	heard       time.Duration // when its engine was asked last; 0: never
	told        int           // what it said of its running requests
}

// hear brings what the engine said up to date, before anything changes: it is
// asked half a period after it is ready, and then every period.
func (c *replica) hear(every, now time.Duration) {
	if every <= 0 {
		c.heard, c.told = max(now, 1), c.running
		return
	}
	if first := c.ready + every/2; now >= first {
		if last := now - (now-first)%every; last > c.heard {
			c.heard, c.told = last, c.running
		}
	}
}

type event struct {
	at      time.Duration
	kind    int
	replica *replica
}

const (
	becameReady = iota
	finished
	stopped
	asked
	hinted
)

// breath is the pause between two rounds of a scaler that watches.
const breath = 100 * time.Millisecond

// events is a heap by time.
type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) } //nolint:forcetypeassert // ours alone
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// run is one policy on one trace.
type run struct {
	model    Model
	policy   Policy
	now      time.Duration
	events   events
	replicas []*replica // youngest last
	waiting  []Request
	history  elastic.History
	arrivals []time.Duration // of the last mean service time
	service  time.Duration   // mean of late
	want     int
	sleeping int           // replicas that are loaded in host memory
	last     time.Duration // request; < 0: none
	out      Result
	change   int
	turns    []time.Duration
	asleep   bool // nobody is asked until the next arrival
	hinted   bool // it is asked before its time
}

// Run replays a trace, in order of arrival, under a policy.
func Run(trace []Request, m Model, p Policy) (Result, error) {
	if len(trace) == 0 || trace[len(trace)-1].At < m.Warmup || m.Concurrency < 1 || m.PromptRate <= 0 || p.Period <= 0 {
		return Result{}, fmt.Errorf("simulate policy %s: there are %d requests, %s of warm-up, concurrency %d, %g prompt tokens/s and a period of %s; requests must follow the warm-up and the rest be positive", p.Name, len(trace), m.Warmup, m.Concurrency, m.PromptRate, p.Period)
	}
	r := &run{model: m, policy: p, last: -1, out: Result{Name: p.Name}}
	r.scale(p.Spec.Min)
	for _, b := range r.replicas { // what the minimum holds was there before
		b.ready = 0
	}
	r.out.ColdStarts = 0
	heap.Push(&r.events, event{at: 0, kind: asked})
	for next, end := 0, trace[len(trace)-1].At; ; {
		if p.Stopped != nil && p.Stopped() {
			return Result{}, ErrStopped
		}
		if next < len(trace) && (r.events.Len() == 0 || trace[next].At <= r.events[0].at) {
			r.now = trace[next].At
			r.arrive(trace[next])
			next++
			continue
		}
		if r.events.Len() == 0 {
			break // asleep to the end
		}
		e := heap.Pop(&r.events).(event) //nolint:forcetypeassert // ours alone
		r.now = e.at
		if next == len(trace) && r.now > end && len(r.waiting) == 0 && r.running() == 0 {
			break
		}
		if r.now > end+24*time.Hour {
			return Result{}, fmt.Errorf("simulate policy %s: %d requests still wait a day after the trace's end, with %d replicas of at most %d", p.Name, len(r.waiting), r.want, p.Spec.Max)
		}
		r.handle(e)
	}
	r.out.finish(r)
	return r.out, nil
}

func (r *run) handle(e event) {
	switch e.kind {
	case finished:
		e.replica.hear(r.policy.Signals, r.now)
		e.replica.running--
		r.dispatch()
		r.reap()
	case becameReady:
		r.dispatch()
		r.hint()
	case stopped:
		r.reap()
	case hinted:
		r.hinted = false
		r.decide()
	case asked:
		r.decide()
		if r.asleep = r.want == 0 && len(r.replicas) == 0 && r.policy.Plan == nil; !r.asleep {
			heap.Push(&r.events, event{at: r.now + r.policy.Period, kind: asked})
		}
	}
}

// hint asks a policy that watches once more, after a breath.
func (r *run) hint() {
	if r.policy.Watches && !r.hinted {
		r.hinted = true
		heap.Push(&r.events, event{at: r.now + breath, kind: hinted})
	}
}

func (r *run) arrive(q Request) {
	r.waiting, r.arrivals, r.last = append(r.waiting, q), append(r.arrivals, r.now), r.now
	if r.want == 0 {
		r.decide() // a wake-up waits for no round
	}
	if r.asleep && r.want > 0 {
		r.asleep = false
		heap.Push(&r.events, event{at: r.now + r.policy.Period, kind: asked})
	}
	r.dispatch()
}

// dispatch gives waiting requests to the least busy replicas.
func (r *run) dispatch() {
	for len(r.waiting) > 0 {
		var best *replica
		for _, c := range r.replicas {
			if !c.ending && c.ready <= r.now && c.running < r.model.Concurrency && (best == nil || c.running < best.running) {
				best = c
			}
		}
		if best == nil {
			return
		}
		q := r.waiting[0]
		r.waiting = r.waiting[1:]
		first := r.model.first(q)
		took := first + time.Duration(max(0, q.Answer-1))*r.model.PerToken
		if r.service == 0 {
			r.service = took
		}
		r.service += (took - r.service) / 100
		best.hear(r.policy.Signals, r.now)
		best.running++
		if q.At >= r.model.Warmup {
			r.out.waits = append(r.out.waits, r.now-q.At)
			r.out.firsts = append(r.out.firsts, r.now-q.At+first)
		}
		heap.Push(&r.events, event{at: r.now + took, kind: finished, replica: best})
	}
}

func (r *run) running() (n int) {
	for _, c := range r.replicas {
		n += c.running
	}
	return n
}
