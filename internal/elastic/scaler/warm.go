package scaler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/elastic"
	"modeldock.io/internal/modelspec"
	"modeldock.io/internal/traffic"
)

// ReasonNoRoom is of a model that was woken before anybody asked and found no
// card: it lets those go first that have callers.
const ReasonNoRoom = "NoRoomToPrewarm"

const (
	// dayEvery is how often what pools spent is kept, if it changed: a process
	// that dies takes so much of the account along.
	dayEvery = 10 * time.Second
	// noRoomFor is how long a model is not tried that found no card.
	noRoomFor = 5 * time.Minute
	// coldAfter is how long a replica may wait for its card and still count as
	// started at once: a node that has to be brought takes minutes.
	coldAfter = 10 * time.Second
)

// Buffer is room that a pool keeps on a cluster for a number of replicas.
type Buffer struct {
	Pool      string
	Class     modelspec.Class
	Count     int
	GPUMemory int64 // per card
	GPUs      int
}

// warmPool is what this process knows of a pool that keeps something ready.
type warmPool struct {
	settings modelspec.WarmPool
	day      elastic.WarmDay
	written  elastic.WarmDay // as it is in the ledger
	at       time.Time       // when it was
	gpus     int             // cards that are kept since day.At
	plan     elastic.WarmPlan
}

// warmPools are those of all pools, by name. The lock guards them against
// whoever reports.
type warmPools struct {
	mu      sync.Mutex
	of      map[string]*warmPool
	asked   []Buffer  // for these buffers, at
	askedAt time.Time // this time
}

// planWarm charges what was kept since the last round, and decides what is
// kept from now on. A ledger that cannot be read keeps what was kept.
func (s *Scaler) planWarm(ctx context.Context, v *view) error {
	pools, err := s.cfg.Ledger.Pools(ctx)
	if err != nil {
		return fmt.Errorf("read what the pools keep ready: %w", err)
	}
	s.warm.mu.Lock()
	defer s.warm.mu.Unlock()
	there := map[string]bool{}
	for _, p := range pools {
		if p.Warm == nil {
			continue
		}
		there[p.Name] = true
		w := s.warm.of[p.Name]
		if w == nil {
			w = &warmPool{day: dayOf(p)}
			if w.day.At.IsZero() {
				w.day.At = s.cfg.Clock() // nothing counts that was before
			}
			w.written = w.day
			s.warm.of[p.Name] = w
		}
		if !reflect.DeepEqual(w.settings, *p.Warm) {
			s.cfg.Metrics.forget(p.Name) // of classes that may be gone
		}
		w.settings = *p.Warm
		w.day = w.day.Next(w.gpus, s.cfg.Clock().In(w.settings.Zone()))
		w.plan = elastic.KeepWarm(w.settings, w.day.GPUHours(), s.warmModels(*v, p.Name, s.model), s.cfg.Clock())
		for name, why := range w.plan.Keep {
			v.warm[name] = fmt.Sprintf("pool %s keeps %s ready, %.2f of %g GPU-hours are spent today", p.Name, why, w.day.GPUHours(), w.settings.GPUHoursPerDay)
		}
	}
	for name := range s.warm.of {
		if !there[name] {
			delete(s.warm.of, name)
			s.cfg.Metrics.forget(name)
		}
	}
	return nil
}

func dayOf(p budget.Pool) (day elastic.WarmDay) {
	_ = json.Unmarshal([]byte(p.WarmDay), &day) // of a later version: it is counted anew
	return day
}

func nameOf(ref budget.Ref) string { return ref.Tenant + "/" + ref.ID }

// warmModels are a pool's models that may sleep and that ModelDock may wake.
func (s *Scaler) warmModels(v view, pool string, memory func(budget.Ref) *model) []elastic.WarmModel {
	var out []elastic.WarmModel
	now := s.cfg.Clock()
	for _, r := range v.live {
		st, there := v.statuses[r.Ref]
		if r.Pool != pool || r.Model.Replicas.Min > 0 || !there || !s.mayWake(r) {
			continue
		}
		m := memory(r.Ref)
		m.mu.Lock()
		m.begin(st, now)
		load, heard := v.loads.Of[r.Ref]
		in := m.signals(v, r, st, load, heard)
		called := load.Waiting+load.InFlight > 0
		idle := elastic.Decide(s.spec(r, m), in, m.history, elastic.Budget{}, now).Reason == elastic.ReasonIdle
		out = append(out, elastic.WarmModel{
			Name: nameOf(r.Ref), Class: r.Model.Class, GPUs: r.Model.GPUs, Priority: r.Priority, Asked: st.Asked,
			Busy: called || st.Asked > 0 && m.kept.IsZero() && !idle, LastUsed: lastUsed(r, st, load),
			NoRoom: now.Before(m.noRoom) || st.Asked == 0 && v.cards != nil && !fits(v.cards, r.Model),
		})
		m.mu.Unlock()
	}
	return out
}

// fits reports whether a replica finds its cards on one node as they are.
func fits(cards []Card, m modelspec.Model) bool {
	free := map[string]int{}
	for _, c := range cards {
		if c.FreeMiB >= m.GPUMemory {
			free[c.Node]++
		}
		if free[c.Node] >= m.GPUs {
			return true
		}
	}
	return false
}

// lastUsed is when a model last had a caller, or else when it was last asked to
// grow: gateways forget when they start anew.
func lastUsed(r budget.Reservation, st delivery.Status, load traffic.Load) time.Time {
	if !load.LastRequest.IsZero() {
		return load.LastRequest
	}
	for _, step := range slices.Backward(st.Scaling) {
		if step.To > step.From {
			return step.At
		}
	}
	return r.ReservedAt
}

// forThePool are the reasons of steps that a pool pays for.
func forThePool(reason string) bool {
	return reason == elastic.ReasonKept || reason == elastic.ReasonPrewarmed
}

// keep notes since when a model runs for its pool alone. That its callers came
// back is noted with how they found it.
func (m *model) keep(d elastic.Decision, load traffic.Load) {
	switch {
	case d.Replicas == 0:
		m.kept = time.Time{}
	case forThePool(d.Reason) && m.kept.IsZero() && load.Waiting+load.InFlight == 0:
		m.kept = d.At
	}
}

// letGo takes a model back that was woken before anybody asked and found no
// card: it would be in the way of those that have callers.
func (s *Scaler) letGo(ctx context.Context, m *model, r budget.Reservation, st delivery.Status, load traffic.Load) (bool, error) {
	if m.kept.IsZero() || !needsRoom(st) || load.Waiting+load.InFlight > 0 {
		return false, nil
	}
	now := s.cfg.Clock()
	m.noRoom, m.kept = now.Add(noRoomFor), time.Time{}
	d := elastic.Decision{
		At: now, From: st.Asked, Replicas: 0, Reason: ReasonNoRoom, Next: m.history,
		Message: fmt.Sprintf("no card has %d MiB free; it is tried again in %s, or when it is called", r.Model.GPUMemory, noRoomFor),
	}
	err := s.write(ctx, m, r.Ref, st, d, nil)
	if errors.Is(err, delivery.ErrScaled) || errors.Is(err, budget.ErrNotFound) {
		err = nil // a wake came between, or its end
	}
	return true, err
}

// settleWarm notes what the round's models were found and kept like, has room
// kept on a cluster, and keeps the account.
func (s *Scaler) settleWarm(ctx context.Context, v view) error {
	s.warm.mu.Lock()
	defer s.warm.mu.Unlock()
	var buffers []Buffer
	for _, name := range slices.Sorted(maps.Keys(s.warm.of)) {
		w := s.warm.of[name]
		w.gpus = 0
		for _, r := range v.live {
			if st, there := v.statuses[r.Ref]; there && r.Pool == name && r.Model.Replicas.Min == 0 {
				s.activation(w, r, st, v.loads.Of[r.Ref])
				w.gpus += s.keptCards(r, st)
			}
		}
		for _, c := range w.plan.Classes {
			buffers = append(buffers, Buffer{Pool: name, Class: c.Class, Count: c.Buffers.Kept, GPUMemory: c.GPUMemory, GPUs: c.GPUs})
		}
	}
	err := s.keepBuffers(ctx, buffers)
	for name, w := range s.warm.of {
		for _, c := range w.plan.Classes {
			w.gpus += w.day.Buffers[c.Class] * c.GPUs
		}
		s.cfg.Metrics.warm(name, w)
		if s.cfg.Clock().Sub(w.at) >= dayEvery {
			err = errors.Join(err, s.keepDay(ctx, name, w))
		}
	}
	return err
}

// keptCards are the cards of a model that run for its pool alone.
func (s *Scaler) keptCards(r budget.Reservation, st delivery.Status) int {
	m := s.model(r.Ref)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept.IsZero() {
		return 0
	}
	n := 0
	for _, replica := range st.Replicas {
		if replica.Phase != delivery.PhasePending && replica.Phase != delivery.PhaseTerminating && replica.Phase != delivery.PhaseAsleep {
			n += r.Model.GPUs
		}
	}
	return n
}

// activation counts how the first caller after a pause found a model.
func (s *Scaler) activation(w *warmPool, r budget.Reservation, st delivery.Status, load traffic.Load) {
	m := s.model(r.Ref)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.counted.IsZero() {
		m.counted = byTheSecond(w.written.At) // what came before it is counted there
	}
	if m.awaited.IsZero() {
		switch woken := wokenAt(st); {
		case woken.After(m.counted):
			m.awaited, m.noticed, m.waits, m.counted = woken, s.cfg.Clock(), elastic.ActivatedWarm, woken
		case !m.kept.IsZero() && load.LastRequest.After(m.kept):
			m.awaited, m.noticed, m.waits, m.kept = load.LastRequest, s.cfg.Clock(), elastic.ActivatedHot, time.Time{}
		}
	}
	if m.awaited.IsZero() {
		return
	}
	since, waits := m.awaited, m.waits
	ready, cold := firstReady(st, since)
	if cold {
		m.waits = elastic.ActivatedCold
	}
	switch {
	case st.Asked == 0:
		m.awaited = time.Time{} // it went to sleep, or was taken back, before it was ready
	case ready.IsZero():
		if waits == elastic.ActivatedHot {
			m.waits = elastic.ActivatedWarm // it still loads
		}
	default:
		m.awaited = time.Time{}
		w.day = w.day.With(m.waits, r.Model.Class, waited(since, ready, m.noticed, s.cfg.Clock()))
		s.cfg.Metrics.activated(r.Pool, m.waits)
	}
}

// waited is how long the first caller did. A cluster tells moments by the
// second, so that such a wait is off by less than one either way: within that,
// what was seen decides.
func waited(since, ready, noticed, now time.Time) time.Duration {
	wait := ready.Sub(since)
	if since.Equal(byTheSecond(since)) && ready.Equal(byTheSecond(ready)) {
		wait = min(max(now.Sub(noticed), wait-time.Second), wait+time.Second)
	}
	return max(0, wait)
}

// wokenAt is when a caller last woke a model.
func wokenAt(st delivery.Status) time.Time {
	for _, step := range slices.Backward(st.Scaling) {
		if step.Reason == elastic.ReasonActivated {
			return step.At
		}
	}
	return time.Time{}
}

// firstReady is when the first replica was, and whether one had to wait for
// its card since a moment.
func firstReady(st delivery.Status, since time.Time) (ready time.Time, cold bool) {
	for _, r := range st.Replicas {
		cold = cold || r.Phase == delivery.PhasePending && r.Reason == delivery.NoFragmentFits || r.PlacedAt.Sub(since) > coldAfter
		if r.Phase == delivery.PhaseReady && (ready.IsZero() || r.ReadyAt.Before(ready)) {
			ready = r.ReadyAt
		}
	}
	return ready, cold
}

// keepBuffers has room kept on a cluster, and learns how much of it is there.
func (s *Scaler) keepBuffers(ctx context.Context, want []Buffer) error {
	now := s.cfg.Clock()
	if s.cfg.Buffers == nil || slices.Equal(want, s.warm.asked) && now.Sub(s.warm.askedAt) < dayEvery {
		return nil
	}
	have, err := s.cfg.Buffers(ctx, want)
	if err != nil {
		return fmt.Errorf("keep room for %d kinds of replicas: %w", len(want), err)
	}
	s.warm.asked, s.warm.askedAt = want, now
	for _, w := range s.warm.of {
		w.day.Buffers = nil
	}
	for i, b := range want {
		if w := s.warm.of[b.Pool]; have[i] > 0 {
			if w.day.Buffers == nil {
				w.day.Buffers = map[modelspec.Class]int{}
			}
			w.day.Buffers[b.Class] = have[i]
		}
	}
	return nil
}

// keepDay writes a pool's account, if it says something new.
func (s *Scaler) keepDay(ctx context.Context, pool string, w *warmPool) error {
	w.at = s.cfg.Clock()
	same := w.written
	same.At = w.day.At
	if reflect.DeepEqual(same, w.day) {
		return nil
	}
	text, err := json.Marshal(w.day)
	if err != nil {
		return fmt.Errorf("encode the day of pool %s: %w", pool, err)
	}
	if err := s.cfg.Ledger.KeepWarmDay(ctx, pool, string(text)); err != nil {
		return fmt.Errorf("keep what pool %s spent: %w", pool, err)
	}
	w.written = w.day
	return nil
}

// lastDays keeps the accounts when the loop ends in order, and forgets them:
// another process goes on with what is in the ledger, and perhaps this one
// later.
func (s *Scaler) lastDays(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	s.warm.mu.Lock()
	defer s.warm.mu.Unlock()
	for name, w := range s.warm.of {
		if err := s.keepDay(ctx, name, w); err != nil {
			s.cfg.Logger.Warn("what was spent last on keeping models warm is not counted", "pool", name, "error", err)
		}
	}
	clear(s.warm.of)
	s.warm.asked, s.warm.askedAt = nil, time.Time{}
	s.forgetCallers()
}

// forgetCallers leaves to whoever scales next what becomes of the callers of
// now: when it is this process again, others have counted them.
func (s *Scaler) forgetCallers() {
	s.mu.Lock()
	models := slices.Collect(maps.Values(s.models))
	s.mu.Unlock()
	for _, m := range models {
		m.mu.Lock()
		m.awaited, m.counted, m.kept = time.Time{}, time.Time{}, time.Time{}
		m.mu.Unlock()
	}
}
