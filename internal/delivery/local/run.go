package local

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/engine"
	"modeldock.io/internal/delivery/local/supervise"
	"modeldock.io/internal/placement"
)

// run is one process of a replica from its start to the end of the last thing
// that it started. The target's lock guards what is not set at birth.
type run struct {
	uid     string
	object  string
	index   int
	process string
	rec     record // the object's record at the start
	cards   []delivery.Card

	generation int64 // the latest that it fulfils
	phase      delivery.Phase
	message    string
	port       int
	upstream   string
	identity   string
	placedAt   time.Time
	startedAt  time.Time
	readyAt    time.Time
	stopping   bool
	stoppedAt  time.Time
	proc       *supervise.Process

	sleep   Sleep
	sleeper *engine.Sleeper // nil: it cannot be put to sleep
	full    []delivery.Card // what it takes of its cards while it is awake
	sleptAt time.Time
	wokenAt time.Time  // zero: it never slept
	orders  chan Sleep // Dozing: fall asleep, Waking: wake up; one at a time

	stopOnce  sync.Once
	stop      chan struct{} // drain, then stop
	hurryOnce sync.Once
	urgent    chan struct{} // do not drain
}

func (r *run) requestStop() { r.stopOnce.Do(func() { close(r.stop) }) }

func (r *run) hurry() {
	r.requestStop()
	r.hurryOnce.Do(func() { close(r.urgent) })
}

// untilStop is a context that ends when the run is to stop.
func (r *run) untilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-r.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

func (r *run) allocations() []placement.Allocation {
	out := make([]placement.Allocation, len(r.cards))
	for i, c := range r.cards {
		out[i] = placement.Allocation{Owner: r.uid, Card: c.UUID, MiB: c.MiB}
	}
	return out
}

// outcome is how a run ended.
type outcome struct {
	reason   delivery.Reason
	message  string
	exitCode int
	neverRan bool
	again    bool // not the model's fault: start it again at once, and do not count it
}

// startRun takes the cards and starts a replica's process. Called under the lock.
func (t *Target) startRun(ctx context.Context, o *object, a Action) {
	s := o.slots[a.Index]
	if s == nil {
		s = &slot{index: a.Index}
		o.slots[a.Index] = s
	}
	s.reason, s.message = "", ""
	r := &run{
		uid: newUID(), object: o.rec.Name, index: a.Index, process: o.rec.process(), rec: o.rec, generation: o.rec.Generation,
		cards: t.take(a.Cards, o.rec.Model.GPUMemory),
		phase: delivery.PhaseStarting, placedAt: t.now(),
		stop: make(chan struct{}), urgent: make(chan struct{}), orders: make(chan Sleep, 1),
	}
	r.full = r.cards
	s.run = r
	t.running.Go(func() {
		out := t.follow(ctx, r)
		t.ended(r, out)
	})
}

// follow runs one process from start to end.
func (t *Target) follow(ctx context.Context, r *run) outcome {
	l, err := t.launch(ctx, r)
	if err != nil {
		return outcome{reason: delivery.ModelLoadFailed, message: err.Error(), exitCode: -1, neverRan: true}
	}
	defer t.runs.Forget(r.uid)
	t.update(func() {
		r.proc, r.port, r.upstream, r.startedAt = l.proc, l.port, l.plan.Upstream, t.now()
		r.sleeper = l.plan.Sleeper
		if !r.stopping {
			r.phase = delivery.PhaseLoading
		}
	})
	watch := &watcher{target: t, run: r, launched: l}
	verdict := watch.untilEnd(ctx)
	exit := l.proc.Exit()
	if exit.Lost {
		// Its supervisor was killed; whatever it left must go before the
		// cards are given to somebody else.
		t.runs.SweepRun(r.uid, l.proc, t.log)
	}
	if verdict.reason == "" {
		verdict = t.explainExit(r, l, exit)
	}
	return verdict
}

// explainExit turns the end of a process that nobody asked for into words.
func (t *Target) explainExit(r *run, l launched, exit supervise.Exit) outcome {
	out := outcome{reason: delivery.CrashLooping, exitCode: exit.Code}
	how := fmt.Sprintf("ended with exit code %d", exit.Code)
	switch {
	case exit.Lost:
		how = "was killed together with its supervisor"
	case exit.Signal != "":
		how = "was ended by signal " + exit.Signal
	}
	t.mu.Lock()
	ready := !r.readyAt.IsZero()
	t.mu.Unlock()
	when := "after it had been ready"
	if !ready {
		out.reason, when = delivery.ModelLoadFailed, "before it was ready"
		if holder := strangerOn(l.port); holder != "" {
			return portTaken(l.port, holder)
		}
	}
	out.message = fmt.Sprintf("%s %s %s", l.plan.Command[0], how, when)
	if len(exit.Tail) > 0 {
		out.message += "; its last lines:\n" + strings.Join(exit.Tail, "\n")
	}
	return out
}

// ended gives the cards back and decides when the replica starts again.
func (t *Target) ended(r *run, out outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.poke()
	o := t.objects[r.object]
	if o == nil || o.slots[r.index] == nil {
		return
	}
	s := o.slots[r.index]
	if _, before := o.last[r.index]; !before || !r.startedAt.IsZero() && r.sleep != Asleep {
		o.last[r.index] = t.replica(o, s)
	}
	s.run = nil
	defer t.keepLast(o)
	if r.sleep == Waking && !r.stopping {
		out.again, out.reason = true, delivery.Loading
		out.message = "its engine slept and could not be woken; it is started anew: " + out.message
		t.log.Warn("a sleeping engine could not be woken and is started anew", "replica", replicaName(r.object, r.index), "message", out.message)
	}
	if r.stopping || r.sleep == Dozing || r.sleep == Asleep { // nobody wanted it to serve
		s.failures, s.retryAt, s.reason, s.message = 0, time.Time{}, delivery.Draining, ""
		return
	}
	now := t.now()
	s.restarts++
	s.countTaken(r, &out)
	if out.again {
		s.retryAt, s.reason, s.message = now, out.reason, out.message
		return
	}
	if !r.readyAt.IsZero() && now.Sub(r.readyAt) > stableAfter {
		s.failures = 0 // it ran well for a while
	}
	s.failures++
	if out.reason == delivery.CrashLooping && s.failures == 1 {
		out.reason = delivery.Crashed // one crash is no loop
	}
	s.reason, s.message = out.reason, out.message
	wait := backoff(s.failures)
	s.retryAt = now.Add(wait)
	o.lastFailure = &delivery.Failure{
		Reason: out.reason, Message: out.message, Replica: replicaName(r.object, r.index), At: now, ExitCode: out.exitCode, NeverRan: out.neverRan,
	}
	t.log.Warn("replica failed", "replica", replicaName(r.object, r.index), "reason", out.reason, "failures", s.failures, "next", wait, "message", out.message)
}

const (
	stableAfter  = time.Minute
	firstBackoff = time.Second
	lastBackoff  = time.Minute
)

// backoff doubles from firstBackoff to lastBackoff.
func backoff(failures int) time.Duration {
	d := firstBackoff
	for i := 1; i < failures && d < lastBackoff; i++ {
		d *= 2
	}
	return min(d, lastBackoff)
}

// update changes guarded state and makes the loop look.
func (t *Target) update(change func()) {
	t.mu.Lock()
	change()
	t.mu.Unlock()
	t.poke()
}

// launched is a started process with the plan that it follows.
type launched struct {
	plan engine.Plan
	proc *supervise.Process
	port int
	user user
}
