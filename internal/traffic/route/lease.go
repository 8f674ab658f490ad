package route

import (
	"strings"
	"sync/atomic"

	"modeldock.io/internal/traffic"
)

// replica is one endpoint with what runs on it. The endpoint is immutable; an
// update makes a new replica that shares the load.
type replica struct {
	endpoint traffic.Endpoint
	load     *load
	seed     uint64 // of its UID, for affinity
}

func byUID(a, b *replica) int { return strings.Compare(a.endpoint.UID, b.endpoint.UID) }

// Demand is what a request needs of a replica.
type Demand struct {
	Tokens   int64  // estimate of what it will hold while it runs
	Affinity uint64 // PrefixKey or SessionKey; 0: none
	Class    string // of the cards, as the caller wrote it; empty: any
	// Queued is set for a request that waited in line: replicas whose
	// parallelism is not known then take a bounded number, so that not all
	// who wait run into the first that comes up.
	Queued bool

	failed []*replica
}

// Avoid keeps the request from the replica that has just failed it, as long as
// that one is not published anew.
func (d *Demand) Avoid(l *Lease) { d.failed = append(d.failed, l.replica) }

// Choosy tells whether replicas that suit others may not suit this request.
func (d *Demand) Choosy() bool { return len(d.failed) > 0 }

func (d *Demand) suits(r *replica) bool {
	for _, f := range d.failed {
		if f == r {
			return false
		}
	}
	return d.Class == "" || ofClass(&r.endpoint, d.Class)
}

// ofClass compares as people write: "h200" means "NVIDIA H200". A replica
// whose cards are not known is of no class.
func ofClass(e *traffic.Endpoint, class string) bool {
	return e.CardModel != "" && strings.Contains(strings.ToLower(e.CardModel), strings.ToLower(class))
}

// unknownParallel is how many of those that waited run at once on a replica
// that does not say how many it can take.
const unknownParallel = 256

func (d *Demand) most(r *replica) int {
	if r.endpoint.Parallel == 0 && d.Queued {
		return unknownParallel
	}
	return r.endpoint.Parallel
}

// Lease is one request's reservation of an endpoint. Release it by defer.
type Lease struct {
	table    *Table
	replica  *replica
	weight   int64
	probe    bool
	released atomic.Bool
}

// Endpoint is the replica that the request goes to. It must not be changed.
func (l *Lease) Endpoint() *traffic.Endpoint { return &l.replica.endpoint }

// Release returns the reservation; calling it again does nothing.
func (l *Lease) Release() {
	if l.released.CompareAndSwap(false, true) {
		if l.probe {
			l.replica.load.breaker.probing.Store(false)
		}
		l.replica.load.release(l.weight)
	}
}

// Answered tells that the replica gave an answer that says nothing against it:
// whatever is the caller's own fault included.
func (l *Lease) Answered() { l.replica.load.breaker.succeeded() }

// Failed tells that the replica answered with an error of its own or broke
// off.
func (l *Lease) Failed() { l.failed(false) }

// Unreached tells that the replica took no connection.
func (l *Lease) Unreached() { l.failed(true) }

func (l *Lease) failed(unreached bool) {
	l.replica.load.failures.Add(1)
	l.replica.load.breaker.failed(l.table.now(), unreached, l.probe)
}

// Acquire chooses an endpoint of k and reserves a place on it in one step. It
// never blocks; false means that no endpoint can take the request now.
func (t *Table) Acquire(k Key, d *Demand) (*Lease, bool) {
	const tries = 4
	var room [16]candidate
	weight := weigh(d.Tokens)
	for try := 0; ; try++ {
		cs := t.candidates(room[:0], k, d, false)
		if len(cs) == 0 {
			if cs = t.candidates(room[:0], k, d, true); len(cs) == 0 {
				return nil, false
			}
		}
		c := &cs[choose(cs, d.Affinity, random)]
		if c.probe && !c.r.load.breaker.probing.CompareAndSwap(false, true) {
			continue
		}
		// What was compared must still be true; only under a storm of changes
		// it is enough that the replica is open and has room.
		if c.r.load.take(c.state, weight) || try >= tries && c.r.load.reserve(weight, d.most(c.r)) {
			return &Lease{table: t, replica: c.r, weight: weight, probe: c.probe}, true
		}
		if c.probe {
			c.r.load.breaker.probing.Store(false)
		}
	}
}

// candidates appends the replicas that may take the request; desperate ones
// are those that only answered with errors of late.
func (t *Table) candidates(cs []candidate, k Key, d *Demand, desperate bool) []candidate {
	for _, r := range t.view.Load().byKey[k] {
		state := r.load.state.Load()
		if isClosed(state) || r.load.full(runningIn(state), d.most(r)) || !d.suits(r) {
			continue
		}
		c := candidate{r: r, state: state, cost: tokensIn(state) + int64(runningIn(state))*requestCost}
		switch r.load.breaker.standing(t.now) {
		case out:
			continue
		case avoid:
			if !desperate {
				continue
			}
		case probe:
			c.probe = true
		case usable:
		}
		if s := r.load.signal.Load(); s != nil && s.fresh(t.now()) {
			c.cost += s.penalty()
			c.saturated = s.saturated()
		}
		cs = append(cs, c)
	}
	return cs
}

// Ready tells whether k has an endpoint that takes requests, whether or not it
// is full.
func (t *Table) Ready(k Key) bool { return len(t.view.Load().byKey[k]) > 0 }

// Report takes an engine's word about itself; an unknown UID is no error.
func (t *Table) Report(uid string, s Signal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.replicas[uid]; r != nil {
		r.load.signal.Store(&s)
	}
}
