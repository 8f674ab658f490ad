package kube

import (
	"slices"
	"sync"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
)

// What is remembered: objects, of the tenants that have the most only the ones
// heard of last, and replicas of each.
const (
	maxObjects  = 2000
	maxReplicas = 16
)

// proofs remembers what replicas were when they ran, also once their Pods are
// gone. It is proof for people and never decides anything, so that it may live
// in memory and be lost with the process: what ended before a restart shows
// only what the ledger keeps.
type proofs struct {
	clock func() time.Time

	mu   sync.Mutex
	byID map[string]*proof // by the object's name
}

type proof struct {
	tenant  string
	uid     string
	last    []delivery.Replica // the newest of a name counts
	failure *delivery.Failure
	heardAt time.Time
}

func newProofs(clock func() time.Time) *proofs {
	return &proofs{clock: clock, byID: map[string]*proof{}}
}

// ran remembers a replica that has, or had, a card or a running engine.
func (p *proofs) ran(tenant, name, uid string, r delivery.Replica) {
	if uid == "" || (len(r.Cards) == 0 && r.StartedAt.IsZero()) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.object(tenant, name, uid)
	i := slices.IndexFunc(o.last, func(l delivery.Replica) bool { return l.UID == r.UID })
	if i < 0 {
		o.last = append(o.last, r)
		if len(o.last) > maxReplicas {
			o.last = o.last[1:]
		}
		return
	}
	// A Pod that ended shows less than it did: what was true stays proven.
	old := o.last[i]
	if r.StartedAt.IsZero() {
		r.StartedAt = old.StartedAt
	}
	if r.ReadyAt.IsZero() {
		r.ReadyAt = old.ReadyAt
	}
	if r.Engine == "" {
		r.Engine = old.Engine
	}
	o.last[i] = r
}

func (p *proofs) failed(tenant, name, uid string, f *delivery.Failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.object(tenant, name, uid).failure = f
}

// of returns what is known of the object that had this name last.
func (p *proofs) of(namespace, name string) (budget.Object, []delivery.Replica, *delivery.Failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.byID[name]
	if o == nil {
		return budget.Object{}, nil, nil
	}
	return budget.Object{Namespace: namespace, Name: name, UID: o.uid}, slices.Clone(o.last), o.failure
}

// object is called under the lock.
func (p *proofs) object(tenant, name, uid string) *proof {
	o := p.byID[name]
	if o == nil || o.uid != uid {
		o = &proof{tenant: tenant, uid: uid}
		p.byID[name] = o
	}
	o.heardAt = p.clock()
	for len(p.byID) > maxObjects {
		p.forgetOne(o)
	}
	return o
}

// forgetOne makes room: the tenant with the most objects loses the one that was
// not heard of for longest, but not what is kept for now.
func (p *proofs) forgetOne(kept *proof) {
	held, oldest := map[string]int{}, map[string]string{}
	for n, o := range p.byID {
		held[o.tenant]++
		if was := p.byID[oldest[o.tenant]]; o != kept && (was == nil || o.heardAt.Before(was.heardAt)) {
			oldest[o.tenant] = n
		}
	}
	most := ""
	for tenant := range oldest {
		if oldest[most] == "" || held[tenant] > held[most] {
			most = tenant
		}
	}
	delete(p.byID, oldest[most])
}
