package local

import (
	"context"
	"errors"
	"slices"
	"time"

	"modeldock.io/internal/delivery"
	"modeldock.io/internal/placement"
)

const (
	// lookEvery is the safety net; everything that matters pokes.
	lookEvery = time.Second
	// guardEvery is how often the records on disk are looked at.
	guardEvery = 10 * time.Second
)

func (t *Target) loop(ctx context.Context) {
	for {
		wait := t.step(ctx)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-t.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// step brings the machine one step closer to the objects.
func (t *Target) step(ctx context.Context) time.Duration {
	t.mu.Lock()
	t.guardRecords()
	// 1. Decide.
	actions, unplanned := t.plan()
	if unplanned != nil {
		t.unplanned.Failed(unplanned)
	} else {
		t.unplanned.Works()
	}
	// 2. Do what only changes our own state, and collect what to stop.
	var stops []func()
	var removed []delivery.Status
	for _, a := range actions {
		if stop := t.execute(ctx, a, &removed); stop != nil {
			stops = append(stops, stop)
		}
	}
	// 3. Tell.
	endpoints, moved := t.changedEndpoints()
	changed := append(t.changedStatuses(), removed...)
	wait := t.untilNext()
	t.cfg.Metrics.shows(t.objects, unplanned)
	t.mu.Unlock()
	t.cfg.OnPlan(unplanned)
	if moved {
		t.cfg.OnEndpoints(endpoints)
	}
	for _, s := range changed {
		t.cfg.OnChange(s)
	}
	// 4. Stop only what routing has been told about.
	for _, stop := range stops {
		stop()
	}
	return wait
}

// plan runs Plan, or, while closing, stops everything.
func (t *Target) plan() ([]Action, error) {
	if !t.closing {
		return Plan(t.world())
	}
	var actions []Action
	for name, o := range t.objects {
		for i, s := range o.slots {
			if s.run != nil && !s.run.stopping {
				actions = append(actions, Action{Verb: StopReplica, Object: name, Index: i, Reason: delivery.Draining, Message: "ModelDock is stopping"})
			}
		}
	}
	return actions, nil
}

func (t *Target) world() World {
	w := World{Now: t.now(), Node: t.placementNode(), AsleepMiB: t.cfg.AsleepMiB, HostShort: t.hostShort()}
	for name, o := range t.objects {
		v := ObjectView{
			Name: name, Tenant: o.rec.ref().Tenant, CreatedAt: o.rec.CreatedAt, Deleting: !o.rec.DeletingAt.IsZero(),
			Wanted: o.wanted(), Process: o.rec.process(),
			Request: placement.Request{MiB: o.rec.Model.GPUMemory, Cards: o.rec.Model.GPUs, Class: o.rec.Model.Class, Workload: o.rec.Model.Workload},
			Asleep:  o.rec.Model.Asleep(), HostMiB: o.rec.Model.HostMiB(),
		}
		for i, s := range o.slots {
			r := ReplicaView{Index: i, RetryAt: s.retryAt}
			if s.run != nil {
				r.Running, r.Stopping, r.Ready, r.Process = true, s.run.stopping, s.run.phase == delivery.PhaseReady, s.run.process
				r.Since, r.Cards = s.run.placedAt, s.run.allocations()
				r.CanSleep, r.Sleep, r.SleptAt, r.Bound = s.run.sleeper != nil, s.run.sleep, s.run.sleptAt, s.run.bound()
				if len(o.slots) > v.Wanted {
					r.InFlight = t.cfg.InFlight(s.run.uid)
				}
			}
			v.Replicas = append(v.Replicas, r)
		}
		slices.SortFunc(v.Replicas, func(a, b ReplicaView) int { return a.Index - b.Index })
		w.Objects = append(w.Objects, v)
	}
	return w
}

// execute does one action under the lock. It returns what is to be done once
// routing knows; nil: nothing.
func (t *Target) execute(ctx context.Context, a Action, removed *[]delivery.Status) func() {
	o := t.objects[a.Object]
	s := o.slots[a.Index]
	switch a.Verb {
	case StartReplica:
		t.startRun(ctx, o, a)
	case HoldReplica:
		if s == nil {
			s = &slot{index: a.Index}
			o.slots[a.Index] = s
		}
		if a.Reason == delivery.Unplaceable && s.reason != a.Reason {
			t.log.Warn("object cannot be placed and is held", "object", a.Object, "why", a.Message)
		}
		s.reason, s.message = a.Reason, a.Message
	case StopReplica:
		s.run.stopping, s.run.phase, s.run.message = true, delivery.PhaseTerminating, a.Message
		s.run.stoppedAt = t.now()
		return s.run.requestStop
	case SleepReplica:
		return t.doze(s.run, a)
	case WakeReplica:
		return t.rouse(s.run, a)
	case ForgetReplica:
		delete(o.slots, a.Index)
	case RemoveObject:
		t.removeObject(o, removed)
	}
	return nil
}

func (t *Target) removeObject(o *object, removed *[]delivery.Status) {
	if err := t.store.Remove(o.rec.Name); err != nil {
		t.log.Error("cannot remove the record of a deleted object; trying again", "object", o.rec.Name, "err", err)
		return
	}
	delete(t.objects, o.rec.Name)
	t.log.Info("object is gone", "object", o.rec.Name, "uid", o.rec.UID)
	*removed = append(*removed, delivery.Status{
		Ref: o.rec.ref(), Object: o.rec.object(), Ledger: o.rec.ledger(), Generation: o.rec.Generation,
		LastFailure: o.lastFailure, Last: t.lastOf(o), CreatedAt: o.rec.CreatedAt, DeletingAt: o.rec.DeletingAt, ObservedAt: t.now(),
	})
	if err := t.cleanAfter(o.rec); err != nil {
		t.log.Warn("cannot remove an engine's directory", "object", o.rec.Name, "err", err)
	}
	t.pruneLogs(o.rec)
}

// cleanAfter removes the engine's directory, and with the tenant's last object
// the weights that were copied for it.
func (t *Target) cleanAfter(gone record) error {
	err := t.scratch.Remove(gone.Name)
	tenant := gone.ref().Tenant
	for _, o := range t.objects {
		if o.rec.ref().Tenant == tenant {
			return err
		}
	}
	if uid, known := t.users.Known(tenant); known {
		err = errors.Join(err, t.scratch.RemoveModels(uid))
	}
	return err
}

// untilNext is the time to the next planned restart, at most lookEvery.
func (t *Target) untilNext() time.Duration {
	wait := lookEvery
	now := t.now()
	for _, o := range t.objects {
		for _, s := range o.slots {
			if s.run == nil && s.retryAt.After(now) {
				wait = min(wait, s.retryAt.Sub(now))
			}
		}
	}
	return max(wait, time.Millisecond)
}

// guardRecords puts back a record whose file was removed by hand while its
// processes run: on one machine the object is its record, and only a release
// ends it. Names that foreign files no longer take are free again.
func (t *Target) guardRecords() {
	now := t.now()
	if now.Sub(t.guardedAt) < guardEvery {
		return
	}
	t.guardedAt = now
	t.pruneFacts(now)
	for name, o := range t.objects {
		if t.store.Has(name) {
			continue
		}
		if err := t.store.Create(o.rec); err != nil {
			t.log.Error("the record of an object was removed and cannot be written again; trying again", "object", name, "err", err)
			continue
		}
		t.log.Warn("the record of an object was removed by hand and is written again; release the request to end it", "object", name, "uid", o.rec.UID)
	}
	for name := range t.foreign {
		if !t.store.Has(name) {
			delete(t.foreign, name)
		}
	}
}
