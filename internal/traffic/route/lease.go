package route

import (
	"strings"
	"sync/atomic"

	"modeldock.io/internal/traffic"
)

// replica is one endpoint with the count of what runs on it. The endpoint is
// immutable; an update makes a new replica that shares the load.
type replica struct {
	endpoint traffic.Endpoint
	load     *load
}

func byUID(a, b *replica) int { return strings.Compare(a.endpoint.UID, b.endpoint.UID) }

// load counts requests in flight. The sign bit says closed, so that "is it
// still open" and "count me" are one atomic step.
type load struct{ state atomic.Int64 }

const closedBit = int64(-1) << 63

func (l *load) running() int { return int(l.state.Load() &^ closedBit) }

// reserve counts one more request unless the replica is closed.
func (l *load) reserve() bool {
	for {
		s := l.state.Load()
		if s&closedBit != 0 {
			return false
		}
		if l.state.CompareAndSwap(s, s+1) {
			return true
		}
	}
}

func (l *load) release() { l.state.Add(-1) }
func (l *load) close()   { l.state.Or(closedBit) }
func (l *load) reopen()  { l.state.And(^closedBit) }

// Lease is one request's reservation of an endpoint. Release it by defer.
type Lease struct {
	replica  *replica
	released atomic.Bool
}

// Endpoint is the replica that the request goes to. It must not be changed.
func (l *Lease) Endpoint() *traffic.Endpoint { return &l.replica.endpoint }

// Release returns the reservation; calling it again does nothing.
func (l *Lease) Release() {
	if l.released.CompareAndSwap(false, true) {
		l.replica.load.release()
	}
}

// Acquire picks an endpoint of k and reserves a place on it. It never blocks;
// false means that no endpoint is ready.
func (t *Table) Acquire(k Key) (*Lease, bool) {
	list := t.view.Load().byKey[k]
	for range len(list) + 1 {
		if len(list) == 0 {
			return nil, false
		}
		r := list[pick(len(list), func(i int) int { return list[i].load.running() }, random)]
		if r.load.reserve() {
			return &Lease{replica: r}, true
		}
		// It was closed between the view and the reservation: the newer view
		// does not have it any more.
		list = open(t.view.Load().byKey[k])
	}
	return nil, false
}

// open leaves out what was closed but is still listed in this view.
func open(list []*replica) []*replica {
	kept := make([]*replica, 0, len(list))
	for _, r := range list {
		if r.load.state.Load()&closedBit == 0 {
			kept = append(kept, r)
		}
	}
	return kept
}

// Ready tells whether k has an endpoint that takes requests.
func (t *Table) Ready(k Key) bool { return len(t.view.Load().byKey[k]) > 0 }
