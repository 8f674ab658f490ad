package local

import (
	"cmp"
	"fmt"
	"slices"

	"modeldock.io/internal/delivery"
	"modeldock.io/internal/modelspec"
	"modeldock.io/internal/placement"
)

// Sleep is how far a replica is from serving because its engine sleeps.
type Sleep int

// The states. Dozing and waking replicas hold their cards; one that sleeps
// holds what its engine leaves there. All but an awake one count for the host
// memory.
const (
	Awake  Sleep = iota
	Dozing       // withdrawn, and being put to sleep
	Asleep
	Waking
)

// split tells the replicas that sleep from all others. One that is ended in its
// sleep is among the sleeping: it holds nothing that is paid for.
func (o ObjectView) split() (awake, asleep []ReplicaView) {
	for _, r := range o.Replicas {
		if r.Running && r.Sleep == Asleep {
			asleep = append(asleep, r)
			continue
		}
		awake = append(awake, r)
	}
	return awake, asleep
}

// maySleep reports whether a replica may be asleep, or fall asleep, beside the
// others of its object.
func (p *planner) maySleep(o ObjectView, r ReplicaView) bool {
	others := p.waiting[o.Name]
	for _, other := range o.Replicas {
		if other.Running && !other.Stopping && other.Index != r.Index && (other.Sleep == Dozing || other.Sleep == Asleep || p.decided(o.Name, other.Index, SleepReplica)) {
			others++
		}
	}
	return !o.Deleting && r.Process == o.Process && others < o.Asleep && p.world.AsleepMiB > 0
}

// couldSleep reports whether a replica that serves could sleep but for the
// host memory.
func (p *planner) couldSleep(o ObjectView, r ReplicaView) bool {
	return r.Sleep == Awake && r.CanSleep && r.Ready && !p.world.HostShort && p.maySleep(o, r) && o.HostMiB <= p.world.AsleepMiB
}

// wake wakes up to n sleeping replicas whose cards have room, those that fell
// asleep last first, and ends those that may not stay asleep.
func (p *planner) wake(o ObjectView, asleep []ReplicaView, n int) (woken int) {
	slices.SortFunc(asleep, func(a, b ReplicaView) int { return cmp.Or(b.SleptAt.Compare(a.SleptAt), a.Index-b.Index) })
	left := 0
	for _, r := range asleep {
		switch {
		case p.wakes(o, r, n-woken):
			woken++
			p.do(Action{Verb: WakeReplica, Object: o.Name, Index: r.Index, Reason: delivery.Loading, Message: "its engine wakes up"})
		case r.Stopping, p.ends(o.Name, r.Index):
		case o.Deleting || r.Process != o.Process || left >= o.Asleep || p.world.AsleepMiB <= 0:
			p.do(Action{Verb: StopReplica, Object: o.Name, Index: r.Index, Reason: delivery.Draining, Message: "it is not kept asleep any more"})
		default:
			left++
		}
	}
	return woken
}

// wakes takes the cards of a sleeping replica if it is wanted and all of them
// have room.
func (p *planner) wakes(o ObjectView, r ReplicaView, wanted int) bool {
	if wanted <= 0 || o.Deleting || r.Stopping || p.ends(o.Name, r.Index) || r.Process != o.Process || len(r.Bound) == 0 || !p.look() {
		return false
	}
	more := map[string]int64{} // what it needs beyond what it left there
	for _, card := range r.Bound {
		more[card] = o.Request.MiB
	}
	for _, left := range r.Cards {
		more[left.Card] -= left.MiB
	}
	for card, mib := range more {
		if p.freeOn(card) < mib {
			return false
		}
	}
	for card, mib := range more {
		if mib <= 0 {
			continue
		}
		if err := p.view.Take(card, mib); err != nil {
			p.lost(fmt.Errorf("wake a replica of %s: %w", o.Name, err))
			return false
		}
	}
	return true
}

// forgetIdle forgets places without a process beyond n of them: others were
// woken for them.
func (p *planner) forgetIdle(o ObjectView, kept []ReplicaView, n int) (rest []ReplicaView) {
	for _, r := range kept {
		if !r.Running {
			if n--; n < 0 {
				p.do(Action{Verb: ForgetReplica, Object: o.Name, Index: r.Index})
				continue
			}
		}
		rest = append(rest, r)
	}
	return rest
}

// freeOn is what a card has free; -1 if it cannot be used at all.
func (p *planner) freeOn(card string) int64 {
	for c := range p.view.Cards() {
		if c.UUID == card && c.Healthy {
			return c.FreeMiB
		}
	}
	return -1
}

// sleeper is a sleeping replica that could be ended.
type sleeper struct {
	object  ObjectView
	replica ReplicaView
}

// displace ends sleeping engines where what they left on the cards is all that
// keeps a replica of o from starting: batch ones first, then who sleeps
// longest. What ends anyway is waited for.
func (p *planner) displace(o ObjectView) {
	all := slices.DeleteFunc(p.sleepers(), func(s sleeper) bool { return len(s.replica.Cards) == 0 })
	if len(all) == 0 {
		return
	}
	needed, err := p.neededOf(all, o)
	if err != nil {
		p.lost(fmt.Errorf("make room for %s: %w", o.Name, err))
		return
	}
	for _, s := range needed {
		p.do(Action{Verb: StopReplica, Object: s.object.Name, Index: s.replica.Index, Reason: delivery.Draining, Message: "what its sleeping engine left on its cards is needed for " + o.Name})
	}
}

// neededOf is how many of the sleepers, the first before the others, have to
// end for a replica of o: none where that is of no use.
func (p *planner) neededOf(all []sleeper, o ObjectView) ([]sleeper, error) {
	trial := p.view.Clone()
	for _, owner := range p.objects {
		for _, r := range owner.Replicas {
			if r.Stopping || r.Sleep == Dozing || p.ends(owner.Name, r.Index) {
				if err := give(trial, r.Cards); err != nil {
					return nil, err
				}
			}
		}
	}
	for i := 0; ; i++ {
		d, err := placement.Choose([]*placement.View{trial}, o.Request, p.seen)
		switch {
		case err != nil:
			return nil, err
		case d.Fits():
			return all[:i], nil
		case i == len(all):
			return nil, nil
		}
		if err := give(trial, all[i].replica.Cards); err != nil {
			return nil, err
		}
	}
}

// relieve ends one sleeping engine while the machine is short of memory: what
// runs comes first. The next one follows when that one is gone.
func (p *planner) relieve() {
	if !p.world.HostShort {
		return
	}
	for _, o := range p.objects {
		for _, r := range o.Replicas {
			if r.Running && r.Sleep == Asleep && (r.Stopping || p.ends(o.Name, r.Index)) {
				return
			}
		}
	}
	if all := p.sleepers(); len(all) > 0 {
		p.do(Action{Verb: StopReplica, Object: all[0].object.Name, Index: all[0].replica.Index, Reason: delivery.Draining, Message: "the machine is short of memory, and its engine sleeps"})
	}
}

// sleepers are those that stay asleep, whoever is given up most easily first.
func (p *planner) sleepers() (all []sleeper) {
	for _, owner := range p.objects {
		for _, r := range owner.Replicas {
			if r.Running && r.Sleep == Asleep && !r.Stopping && !p.ends(owner.Name, r.Index) && !p.wakesUp(owner.Name, r.Index) {
				all = append(all, sleeper{owner, r})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b sleeper) int {
		return cmp.Or(b.rank()-a.rank(), a.replica.SleptAt.Compare(b.replica.SleptAt))
	})
	return all
}

func give(view *placement.View, held []placement.Allocation) error {
	for _, a := range held {
		if err := view.Give(a.Card, a.MiB); err != nil {
			return err
		}
	}
	return nil
}

// rank is how easily a sleeping engine is given up.
func (s sleeper) rank() int {
	if s.object.Request.Workload == modelspec.WorkloadBatch {
		return 1
	}
	return 0
}

// ends and wakesUp tell what was decided about a replica just now.
func (p *planner) ends(object string, index int) bool {
	return p.decided(object, index, StopReplica) || p.decided(object, index, SleepReplica)
}

func (p *planner) wakesUp(object string, index int) bool {
	return p.decided(object, index, WakeReplica)
}

func (p *planner) decided(object string, index int, verb Verb) bool {
	return slices.ContainsFunc(p.actions, func(a Action) bool { return a.Object == object && a.Index == index && a.Verb == verb })
}
