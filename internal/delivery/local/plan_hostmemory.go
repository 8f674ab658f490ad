package local

import (
	"fmt"
	"maps"
	"slices"

	"modeldock.io/internal/delivery"
)

// hostMemory is the account of the host memory for engines that sleep. Who has
// not, or not yet again, its weights on its cards alone takes what its object
// says.
type hostMemory struct {
	free    int64
	ending  int64            // what engines have that are about to be gone
	tenants map[string]int64 // what stays taken, by tenant
}

func newHostMemory(most int64, objects []ObjectView) hostMemory {
	m := hostMemory{free: most, tenants: map[string]int64{}}
	for _, o := range objects {
		for _, r := range o.Replicas {
			switch {
			case !r.Running || r.Sleep == Awake:
				continue
			case r.Stopping:
				m.ending += o.HostMiB
			default:
				m.tenants[o.Tenant] += o.HostMiB
			}
			m.free -= o.HostMiB
		}
	}
	return m
}

// room reports whether one more replica of an object finds its memory now, or
// when those that end are gone.
func (m *hostMemory) room(o ObjectView) (now, later bool) {
	free := max(m.free, 0) // there may be less of it than before
	return o.HostMiB <= free, o.HostMiB <= m.free+m.ending
}

// take gives one more replica of an object its memory. What is free is set
// aside for one that has to wait for more.
func (m *hostMemory) take(o ObjectView) {
	fromFree := min(o.HostMiB, max(m.free, 0))
	m.free -= fromFree
	m.ending -= o.HostMiB - fromFree
	m.tenants[o.Tenant] += o.HostMiB
}

// end has what one sleeping engine takes come free.
func (m *hostMemory) end(o ObjectView) {
	m.ending += o.HostMiB
	m.tenants[o.Tenant] -= o.HostMiB
}

func (m hostMemory) clone() hostMemory {
	m.tenants = maps.Clone(m.tenants)
	return m
}

// fallsAsleep decides about a replica that could sleep: it does, or it serves
// on until the memory for it has come free, or there is none for it.
func (p *planner) fallsAsleep(o ObjectView, r ReplicaView) bool {
	now, later := p.host.room(o)
	if !now && !later {
		later = p.share(o)
	}
	switch {
	case now:
		p.do(Action{Verb: SleepReplica, Object: o.Name, Index: r.Index, Reason: delivery.Draining, Message: "it is not wanted any more and goes to sleep"})
	case later:
		p.waiting[o.Name]++
	default:
		return false
	}
	p.host.take(o)
	return true
}

// share ends sleeping engines of other tenants so that a replica of o can
// sleep: always one of the tenant who has most of the memory, and only while
// that is more than o's tenant has with this replica. So one tenant alone can
// have all of it, whoever has little gets something, and equals leave each
// other alone.
// (Pushing out of the longest queue: I. Cidon, L. Georgiadis, R. Guérin,
// A. Khamisy, Optimal Buffer Sharing, 1995.) It ends none where that does not
// suffice.
func (p *planner) share(o ObjectView) bool {
	trial := p.host.clone()
	rest := slices.DeleteFunc(p.sleepers(), func(s sleeper) bool {
		return s.object.Tenant == o.Tenant || s.object.wantsMore()
	})
	var ended []sleeper
	for {
		if _, later := trial.room(o); later {
			break
		}
		i := mostOf(rest, trial.tenants)
		if i < 0 || trial.tenants[rest[i].object.Tenant] <= trial.tenants[o.Tenant]+o.HostMiB {
			return false
		}
		trial.end(rest[i].object)
		ended = append(ended, rest[i])
		rest = slices.Delete(rest, i, i+1)
	}
	for _, s := range ended {
		p.do(Action{Verb: StopReplica, Object: s.object.Name, Index: s.replica.Index, Reason: delivery.Draining, Message: fmt.Sprintf(
			"its engine sleeps, and another tenant, who has less of the %d MiB of host memory for that, needs a part of it (--asleep-memory)", p.world.AsleepMiB)})
	}
	p.host = trial
	return true
}

// mostOf is the first of the sleepers whose tenant has most; -1: there is none.
func mostOf(sleepers []sleeper, tenants map[string]int64) int {
	most := -1
	for i, s := range sleepers {
		if most < 0 || tenants[s.object.Tenant] > tenants[sleepers[most].object.Tenant] {
			most = i
		}
	}
	return most
}

// wantsMore reports whether an object wants more replicas than run, so that one
// that sleeps is about to be woken.
func (o ObjectView) wantsMore() bool {
	awake, _ := o.split()
	return o.Wanted > len(slices.DeleteFunc(awake, func(r ReplicaView) bool { return !r.Running }))
}

// whyNotAsleep says, where one more replica of an object may sleep, why it is
// stopped instead.
func (p *planner) whyNotAsleep(o ObjectView, r ReplicaView) string {
	switch {
	case o.Asleep == 0 || o.Deleting:
		return ""
	case p.world.AsleepMiB <= 0:
		return "; nothing sleeps on this machine (--asleep-memory 0)"
	case o.HostMiB > p.world.AsleepMiB:
		return fmt.Sprintf("; it cannot sleep, because it would take %d MiB of host memory, and all that sleep may take %d (--asleep-memory)", o.HostMiB, p.world.AsleepMiB)
	case p.couldSleep(o, r):
		return fmt.Sprintf("; it cannot sleep, because it would take %d MiB of host memory: of the %d that all who sleep may take (--asleep-memory), its tenant has %d, and no other tenant has more than that with this replica",
			o.HostMiB, p.world.AsleepMiB, p.host.tenants[o.Tenant])
	}
	return ""
}
