package local

import (
	"context"
	"fmt"
	"time"

	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/engine/ollama"
	"modeldock.io/internal/delivery/local/procfs"
)

const (
	firstProbe     = 30 * time.Millisecond // while loading; grows to slowProbe
	slowProbe      = time.Second
	readyProbe     = 2 * time.Second // once ready
	probeTimeout   = 2 * time.Second
	missesToUnused = 3  // failed probes until nobody is sent there
	missesToStop   = 15 // failed probes until it is stopped and started again
	drainLook      = 50 * time.Millisecond
	blockedAfter   = 10 * time.Second // after SIGKILL, until a stop counts as blocked
)

// watcher follows one process: is it ready, does it stay so, must it go.
type watcher struct {
	target *Target
	run    *run
	launched
	asleep  bool
	loaded  bool // the step after the first health is done
	misses  int
	strange int       // looks in a row that found a stranger on the port
	deadAt  time.Time // when loading has taken too long
	verdict outcome
}

// untilEnd returns once the process and everything below it are gone. The
// verdict is empty where the process ended by itself.
func (w *watcher) untilEnd(ctx context.Context) outcome {
	w.deadAt = w.target.now().Add(w.plan.LoadTimeout)
	pause := firstProbe
	for {
		timer := time.NewTimer(pause)
		select {
		case <-w.proc.Done():
			timer.Stop()
			return w.verdict
		case <-w.run.stop:
			timer.Stop()
			w.drain()
			w.end()
			return w.verdict
		case order := <-w.run.orders:
			timer.Stop()
			if !w.obey(ctx, order) {
				w.end()
				return w.verdict
			}
			pause = firstProbe
			continue
		case <-timer.C:
		}
		pause = min(pause*3/2, slowProbe)
		if w.probe(ctx) {
			pause = readyProbe
		} else if w.verdict.reason != "" {
			w.end()
			return w.verdict
		}
	}
}

// probe checks once and tells whether the replica is well: ready, or asleep as
// it should be.
func (w *watcher) probe(ctx context.Context) bool {
	// 1. Whose port is it?
	owner, err := procfs.PortOwner(w.port, w.proc.PID)
	if err != nil {
		w.loading(fmt.Sprintf("cannot see who listens on port %d: %v", w.port, err))
		return false
	}
	if owner != procfs.Stranger {
		w.strange = 0
	}
	switch owner {
	case procfs.Nobody:
		w.missed(fmt.Sprintf("nothing listens on port %d yet", w.port))
		return false
	case procfs.Stranger:
		// A process that is just ending can look like one; so look twice.
		if w.strange++; w.strange < 2 {
			return false
		}
		w.verdict = portTaken(w.port, strangerOn(w.port))
		return false
	case procfs.Tree:
	}
	// 2. Is it healthy?
	client := w.client()
	if err := client.health(ctx, w.plan.HealthPath); err != nil {
		w.missed(err.Error())
		return false
	}
	if w.plan.Sleeper != nil {
		switch asleep, err := client.asleep(ctx, w.plan.Sleeper); {
		case err != nil:
			w.missed(err.Error())
			return false
		case w.asleep:
			return w.stillAsleep(asleep)
		case asleep:
			w.missed("its engine sleeps")
			return false
		}
	}
	// 3. Is it the model that was asked for?
	if !w.loaded {
		if !w.load(ctx, client) {
			return false
		}
		identity, err := client.identity(ctx, w.plan)
		if err != nil {
			w.missed(err.Error())
			return false
		}
		w.loaded = true
		w.target.update(func() { w.run.identity = identity })
	}
	w.misses = 0
	ready := false // for the first time
	w.target.update(func() {
		if w.run.stopping || w.run.sleep == Dozing {
			return
		}
		if w.run.readyAt.IsZero() {
			w.run.readyAt = w.target.now()
			w.target.slotOf(w.run).everReady = true
			w.target.cfg.Metrics.serves(w.run)
			ready = true
		}
		w.run.phase, w.run.message, w.run.sleep = delivery.PhaseReady, "", Awake
		if o := w.target.objects[w.run.object]; ready && o != nil {
			w.target.keepLast(o)
		}
	})
	return true
}

// load does what Ollama needs between answering and serving.
func (w *watcher) load(ctx context.Context, client prober) bool {
	if w.plan.Ollama == nil {
		return true
	}
	w.loading("Ollama loads " + w.plan.Ollama.Name)
	ctx, cancel := context.WithTimeout(ctx, max(time.Second, w.deadAt.Sub(w.target.now())))
	defer cancel()
	failed := make(chan error, 1)
	go func() { failed <- ollama.Load(ctx, client.base, client.dial, *w.plan.Ollama) }()
	var err error
	select {
	case err = <-failed:
	case <-w.run.stop: // the loop sees to it
		return false
	case <-w.proc.Done():
		return false
	}
	if err != nil {
		w.verdict = outcome{reason: delivery.ModelLoadFailed, message: err.Error(), exitCode: -1}
	}
	return err == nil
}

// missed counts a failed probe: too long before the first readiness, or too
// many after it, end the process.
func (w *watcher) missed(why string) {
	if w.asleep {
		if w.misses++; w.misses >= missesToUnused {
			w.verdict = outcome{reason: delivery.Loading, exitCode: -1, message: fmt.Sprintf("asleep, it did not answer %d times in a row: %s", w.misses, why)}
		}
		return
	}
	if !w.loaded {
		if w.target.now().After(w.deadAt) {
			w.verdict = outcome{reason: delivery.ProgressDeadlineExceeded, exitCode: -1,
				message: fmt.Sprintf("it was not ready after %s: %s", w.plan.LoadTimeout, why)}
			return
		}
		w.loading(why)
		return
	}
	w.misses++
	if w.misses >= missesToStop {
		w.verdict = outcome{reason: delivery.CrashLooping, exitCode: -1,
			message: fmt.Sprintf("it was ready, but %d health checks in a row failed: %s", w.misses, why)}
		return
	}
	if w.misses >= missesToUnused {
		w.loading(why)
	}
}

func (w *watcher) loading(message string) {
	w.target.update(func() {
		if !w.run.stopping && w.run.sleep != Dozing && w.run.sleep != Asleep {
			w.run.phase, w.run.message = delivery.PhaseLoading, message
		}
	})
}

// drain waits until no request runs on the replica any more, at most the
// grace. Two looks in a row must see none: a request may be on its way.
func (w *watcher) drain() {
	grace := time.After(w.target.cfg.StopGrace)
	look := time.NewTicker(drainLook)
	defer look.Stop()
	for idle := 0; idle < 2; {
		select {
		case <-look.C:
			if w.target.cfg.InFlight(w.run.uid) == 0 {
				idle++
			} else {
				idle = 0
			}
		case <-grace:
			return
		case <-w.run.urgent:
			return
		case <-w.proc.Done():
			return
		}
	}
}

// end stops the process and returns when the last one is gone.
func (w *watcher) end() {
	grace := w.target.cfg.KillGrace
	w.target.update(func() { w.run.phase = delivery.PhaseTerminating })
	w.proc.Stop(grace)
	blocked := time.NewTimer(grace + blockedAfter)
	defer blocked.Stop()
	urgent := w.run.urgent
	for {
		select {
		case <-w.proc.Done():
			return
		case <-urgent:
			urgent = nil
			w.proc.Stop(0)
		case <-blocked.C:
			w.target.update(func() {
				w.run.message = fmt.Sprintf("%s: process %d or one below it does not end %s after SIGKILL", delivery.ReleaseBlocked, w.proc.PID, blockedAfter)
			})
		}
	}
}

// slotOf is called under the lock.
func (t *Target) slotOf(r *run) *slot {
	if o := t.objects[r.object]; o != nil && o.slots[r.index] != nil {
		return o.slots[r.index]
	}
	return &slot{}
}
