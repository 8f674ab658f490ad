package scaler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/elastic"
	"modeldock.io/internal/modelspec"
)

// Reasons of steps that make room.
const (
	ReasonYielded  = "Yielded"  // gave its card's memory to a model that woke
	ReasonMadeRoom = "MadeRoom" // found no card, and others were asked for theirs
)

// makeRoom lets models that have callers and found no card ask idle ones to
// yield, the most important first.
func (s *Scaler) makeRoom(ctx context.Context, v view) error {
	var wakers []budget.Reservation
	for _, r := range v.live {
		if st, there := v.statuses[r.Ref]; there && needsRoom(st) && v.loads.Of[r.Ref].Waiting > 0 {
			wakers = append(wakers, r)
		} else {
			s.model(r.Ref).say("")
		}
	}
	slices.SortStableFunc(wakers, func(a, b budget.Reservation) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Seq, b.Seq))
	})
	var errs []error
	for _, r := range wakers {
		plan := s.roomFor(v, r)
		if !plan.fits {
			s.model(r.Ref).say(plan.why)
			continue
		}
		var asked []string
		for _, ref := range plan.victims {
			yields, err := s.askToYield(ctx, v, ref, r)
			errs = append(errs, err)
			if yields {
				asked = append(asked, nameOf(ref))
			}
		}
		if len(asked) > 0 {
			errs = append(errs, s.tellRoom(ctx, v.statuses[r.Ref], r, asked))
		}
		if len(plan.victims) > 0 {
			return errors.Join(errs...) // what is free now shows in the next round
		}
	}
	return errors.Join(errs...)
}

func (m *model) say(note string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note = note
}

// needsRoom: nothing serves, and a replica found no card.
func needsRoom(st delivery.Status) bool {
	return st.Ready == 0 && st.Wanted > 0 && slices.ContainsFunc(st.Replicas, func(r delivery.Replica) bool {
		return (r.UID == "" || r.Phase == delivery.PhasePending) && r.Reason == delivery.NoFragmentFits
	})
}

// roomPlan says who yields for one model.
type roomPlan struct {
	fits    bool
	victims []budget.Ref // one entry per replica; none: what ends already suffices
	why     string
}

// roomFor finds the cards of one node whose holders give back the most easily
// what the model needs on each.
func (s *Scaler) roomFor(v view, r budget.Reservation) roomPlan {
	type choice struct {
		card    Card
		victims []budget.Ref
	}
	byNode := map[string][]choice{}
	now := s.cfg.Clock()
	for _, c := range v.cards {
		if victims, ok := s.roomOn(v, c, r, now); ok {
			byNode[c.Node] = append(byNode[c.Node], choice{c, victims})
		}
	}
	var best []budget.Ref
	found := false
	for _, choices := range byNode {
		if len(choices) < r.Model.GPUs {
			continue
		}
		slices.SortStableFunc(choices, func(a, b choice) int {
			return cmp.Or(len(a.victims)-len(b.victims), strings.Compare(a.card.UUID, b.card.UUID))
		})
		var victims []budget.Ref
		for _, c := range choices[:r.Model.GPUs] {
			victims = append(victims, c.victims...)
		}
		if !found || len(victims) < len(best) {
			best, found = victims, true
		}
	}
	if !found {
		return roomPlan{why: fmt.Sprintf("no card has %d MiB free, and no idle replica of priority %d or less that has had its card for %s can give it back", r.Model.GPUMemory, r.Priority, s.cfg.Residence)}
	}
	return roomPlan{fits: true, victims: best}
}

// roomOn is who has to yield on one card; false if that does not suffice.
func (s *Scaler) roomOn(v view, c Card, r budget.Reservation, now time.Time) ([]budget.Ref, bool) {
	need := r.Model.GPUMemory - c.FreeMiB
	var tenants []elastic.Tenant
	refs := map[string]budget.Ref{}
	for _, h := range c.Holders {
		owner, st, replica := holderOf(v, h.Replica)
		switch {
		case replica == nil:
		case replica.Phase == delivery.PhaseTerminating, replica.Phase == delivery.PhaseAsleep:
			need -= h.MiB // it comes by itself, or when its place is needed
		case owner.Ref != r.Ref && yields(owner):
			load := v.loads.Of[owner.Ref]
			blind := len(v.loads.Unheard) > 0
			_, heard := v.loads.Of[owner.Ref]
			if blind || !heard {
				continue // it may be busy
			}
			used := load.LastRequest
			if used.Before(replica.ReadyAt) {
				used = replica.ReadyAt
			}
			refs[nameOf(owner.Ref)] = owner.Ref
			tenants = append(tenants, elastic.Tenant{
				Name: owner.Tenant + "/" + owner.ID, Priority: owner.Priority, Batch: owner.Model.Workload == modelspec.WorkloadBatch,
				Replicas: min(st.Asked, owner.Funded), Warm: warmOf(v, owner), InFlight: load.InFlight, Waiting: load.Waiting,
				ReadyAt: replica.ReadyAt, Loading: replica.ReadyAt.Sub(replica.PlacedAt), LastUsed: used, MiB: h.MiB,
			})
		}
	}
	if need <= 0 {
		return nil, true
	}
	var victims []budget.Ref
	names := elastic.Yield(tenants, need, r.Priority, s.cfg.Residence, now)
	for _, name := range names {
		victims = append(victims, refs[name])
	}
	return victims, len(names) > 0
}

// warmOf is how many replicas of a model stay: what its owner pays to keep, or
// what its pool does.
func warmOf(v view, r budget.Reservation) int {
	if _, kept := v.warm[nameOf(r.Ref)]; kept {
		return max(1, r.Model.Replicas.Min)
	}
	return r.Model.Replicas.Min
}

// yields: only a count that ModelDock writes can be lowered by it.
func yields(r budget.Reservation) bool {
	return !paused(r) && r.Model.Acts() == modelspec.ActuatorDirect
}

// holderOf finds the elastic model that a replica runs for.
func holderOf(v view, uid string) (budget.Reservation, delivery.Status, *delivery.Replica) {
	for _, r := range v.live {
		st := v.statuses[r.Ref]
		for i := range st.Replicas {
			if st.Replicas[i].UID == uid && uid != "" {
				return r, st, &st.Replicas[i]
			}
		}
	}
	return budget.Reservation{}, delivery.Status{}, nil
}

// askToYield lowers one model's count by one replica, unless it was changed
// since the round looked.
func (s *Scaler) askToYield(ctx context.Context, v view, ref budget.Ref, to budget.Reservation) (bool, error) {
	m := s.model(ref)
	m.mu.Lock()
	defer m.mu.Unlock()
	st, load := v.statuses[ref], v.loads.Of[ref]
	now := s.cfg.Clock()
	idle := "it was never called"
	if !load.LastRequest.IsZero() {
		idle = "idle for " + now.Sub(load.LastRequest).Round(time.Second).String()
	}
	step := delivery.ScalingStep{
		At: now, From: st.Asked, To: st.Asked - 1, Reason: ReasonYielded, Busy: busy(load),
		Message: fmt.Sprintf("a replica made room for %s/%s, which has callers and found no card with %d MiB; %s; its slots stay paid for", to.Tenant, to.Model.Name, to.Model.GPUMemory, idle),
	}
	if err := s.cfg.Target.Scale(ctx, ref, step); errors.Is(err, delivery.ErrScaled) || errors.Is(err, budget.ErrNotFound) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("make room for %s/%s: %w", to.Tenant, to.ID, err)
	}
	st.Asked = step.To
	v.statuses[ref] = st // should another one of its replicas be asked for
	m.history.Downs = append(m.history.Downs, elastic.Change{At: now, By: 1})
	m.knows(now)
	m.last = elastic.Decision{At: now, From: step.From, Replicas: step.To, Reason: step.Reason, Message: step.Message}
	s.cfg.Logger.Info("made room", "tenant", ref.Tenant, "request", ref.ID, "from", step.From, "to", step.To, "for", to.Tenant+"/"+to.ID)
	s.cfg.Metrics.changed(step)
	return true, nil
}

// tellRoom remembers on the other side who was asked.
func (s *Scaler) tellRoom(ctx context.Context, st delivery.Status, r budget.Reservation, asked []string) error {
	step := delivery.ScalingStep{
		At: s.cfg.Clock(), From: st.Asked, To: st.Asked, Reason: ReasonMadeRoom,
		Message: fmt.Sprintf("no card has %d MiB free; asked idle replicas to make room: %s", r.Model.GPUMemory, strings.Join(asked, ", ")),
	}
	s.model(r.Ref).say(step.Message)
	err := s.cfg.Target.Scale(ctx, r.Ref, step)
	if errors.Is(err, delivery.ErrScaled) {
		return nil
	}
	return err
}
