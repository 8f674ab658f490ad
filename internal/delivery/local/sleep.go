package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"modeldock.io/internal/delivery"
	"modeldock.io/internal/placement"
)

const (
	// sleepTimeout and wakeTimeout bound what an engine may take: gigabytes
	// travel between its cards and host memory.
	sleepTimeout = 2 * time.Minute
	wakeTimeout  = 2 * time.Minute
	// shownWithin is how long what an engine gave back may take to show where
	// the cards are measured.
	shownWithin = 15 * refreshEvery
	// shownSlack is what may seem to be missing of it: drivers round.
	shownSlack = 256 // MiB
	// hostReserve is the part of the machine's memory that is left to what runs:
	// while less is available, sleeping engines are ended.
	hostReserve = 20
)

// hostShort reports whether the machine's memory is needed by what runs. It
// matters only where something may sleep. A machine that does not tell is not.
func (t *Target) hostShort() bool {
	if t.cfg.AsleepMiB <= 0 {
		return false
	}
	m, err := t.cfg.Memory()
	return err == nil && m.AvailableMiB < m.TotalMiB/hostReserve
}

// bound are the cards that the process can use.
func (r *run) bound() []string {
	var out []string
	for _, c := range r.full {
		out = append(out, c.UUID)
	}
	return out
}

// residue is what the sleeping engine leaves on its cards. A simulated card
// has no memory that anything could be left in.
func (r *run) residue() []delivery.Card {
	var out []delivery.Card
	for _, c := range r.full {
		if c.MiB = min(c.MiB, r.sleeper.ResidueMiB); c.MiB > 0 && !c.Simulated {
			out = append(out, c)
		}
	}
	return out
}

// doze takes a replica out of routing; its engine is told once routing knows.
// Called under the lock.
func (t *Target) doze(r *run, a Action) func() {
	r.sleep, r.phase, r.message = Dozing, delivery.PhaseTerminating, a.Message
	return func() { r.orders <- Dozing }
}

// rouse has a sleeping replica hold its cards, before its engine is told to
// wake up. Called under the lock.
func (t *Target) rouse(r *run, a Action) func() {
	now := t.now()
	r.sleep, r.cards = Waking, r.full
	r.phase, r.message, r.placedAt, r.wokenAt, r.readyAt = delivery.PhaseLoading, a.Message, now, now, time.Time{}
	return func() { r.orders <- Waking }
}

// obey puts the engine to sleep or wakes it; false if its process has to end.
func (w *watcher) obey(ctx context.Context, order Sleep) bool {
	ctx, cancel := w.run.untilStop(ctx)
	defer cancel()
	if order == Dozing {
		return w.fallAsleep(ctx)
	}
	return w.wakeUp(ctx)
}

// fallAsleep lets running requests finish and puts the engine to sleep. Its
// cards are given back only when it said so, and where they are measured, when
// that shows. An engine that does not do it is stopped instead.
func (w *watcher) fallAsleep(ctx context.Context) bool {
	t, r := w.target, w.run
	w.drain()
	if ctx.Err() != nil {
		return true // it is to be stopped: the loop sees to it
	}
	err := errors.New("requests still run after the grace")
	if t.cfg.InFlight(r.uid) == 0 {
		err = w.putToSleep(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return true
	case err != nil:
		t.log.Warn("an engine did not fall asleep and is stopped instead", "replica", replicaName(r.object, r.index), "err", err)
		t.update(func() {
			r.stopping, r.stoppedAt, r.message = true, t.now(), fmt.Sprintf("its engine did not fall asleep: %v", err)
		})
		return false
	}
	w.asleep, w.misses = true, 0
	t.log.Info("an engine sleeps in host memory", "replica", replicaName(r.object, r.index), "MiB", r.rec.Model.HostMiB())
	return true
}

func (w *watcher) putToSleep(ctx context.Context) error {
	t, r, client := w.target, w.run, w.client()
	before := t.strangers()
	if err := client.tell(ctx, r.sleeper.SleepPath, sleepTimeout); err != nil {
		return err
	}
	asleep, err := client.asleep(ctx, r.sleeper)
	if err != nil {
		return err
	}
	if !asleep {
		return errors.New("it was told to sleep and says that it does not")
	}
	said := t.now()
	patience := time.NewTimer(shownWithin)
	defer patience.Stop()
	look := time.NewTicker(drainLook)
	defer look.Stop()
	for !t.giveBack(r, said, before) {
		select {
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-w.proc.Done():
			return errors.New("its process ended")
		case <-patience.C:
			return fmt.Errorf("it says that it sleeps, but %s later its cards do not show %d MiB less in use", shownWithin, r.rec.Model.GPUMemory-r.sleeper.ResidueMiB)
		}
	}
	return nil
}

// strangers is what is measured on each card but held by nobody.
func (t *Target) strangers() map[string]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[string]int64{}
	for _, c := range t.placementNode().Cards {
		out[c.UUID] = c.UnaccountedMiB
	}
	return out
}

// giveBack frees a sleeping replica's cards if a measurement of after its
// engine's word shows them free, or if nothing measures them.
func (t *Target) giveBack(r *run, said time.Time, before map[string]int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.stopping {
		return false // what it holds is free when it is gone
	}
	freed := map[string]int64{}
	for _, c := range r.full {
		freed[c.UUID] = c.MiB
	}
	rest := r.residue()
	for _, c := range rest {
		freed[c.UUID] -= c.MiB
	}
	samples := map[string]placement.Sample{}
	for card, mib := range freed {
		s, measured := t.samples[card]
		if !measured {
			continue
		}
		s.AllocatedMiB = max(0, s.AllocatedMiB-mib)
		nobodys, stale, err := s.Unaccounted(t.reserveOf(card), t.now())
		if err != nil || stale || !s.At.After(said) || nobodys > before[card]+shownSlack {
			return false
		}
		samples[card] = s
	}
	maps.Copy(t.samples, samples)
	if o := t.objects[r.object]; o != nil && o.slots[r.index] != nil {
		o.last[r.index] = t.replica(o, o.slots[r.index]) // as it served, with its cards
	}
	r.sleep, r.cards, r.sleptAt, r.readyAt = Asleep, rest, t.now(), time.Time{}
	r.phase, r.message = delivery.PhaseAsleep, fmt.Sprintf("its engine sleeps with its weights in %d MiB of host memory", r.rec.Model.HostMiB())
	t.poke()
	return true
}

func (t *Target) reserveOf(card string) int64 {
	for _, c := range t.cards {
		if c.UUID == card {
			return t.cfg.Reserve.Of(c.Total)
		}
	}
	return 0
}

// wakeUp has the engine take its cards again, which are held for it already.
// From then on it is probed like one that was just started.
func (w *watcher) wakeUp(ctx context.Context) bool {
	w.asleep, w.loaded, w.misses = false, false, 0
	w.deadAt = w.target.now().Add(wakeTimeout)
	err := w.client().tell(ctx, w.run.sleeper.WakePath, wakeTimeout)
	if err != nil && ctx.Err() == nil {
		w.verdict = outcome{reason: delivery.Loading, exitCode: -1, message: err.Error()}
		return false
	}
	return true
}

// stillAsleep ends an engine that takes its cards again without being told:
// they may be somebody else's by now.
func (w *watcher) stillAsleep(asleep bool) bool {
	w.misses = 0
	if !asleep {
		w.verdict = outcome{reason: delivery.Loading, exitCode: -1, message: "its engine was woken by somebody else while its cards were given away"}
		w.target.log.Warn("a sleeping engine was woken by somebody else and is ended", "replica", replicaName(w.run.object, w.run.index))
	}
	return asleep
}

func (w *watcher) client() prober {
	return prober{base: fmt.Sprintf("http://127.0.0.1:%d", w.port), user: w.user.UID}
}
