package gpumemory

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"modeldock.io/internal/placement"
)

// keptAfter is how long an entry outlives the news that makes it superfluous:
// the scheduler's own cache may hear of it later than this plugin does.
const keptAfter = time.Minute

// hold is cards that a Pod was given in memory.
type hold struct {
	pod    types.UID
	name   types.NamespacedName
	node   string
	cards  []placement.Chosen
	mib    int64
	doubt  time.Time // when it was last tried with a Binding that may have taken effect; zero: there is none
	posted bool      // a Binding is under way
	expiry time.Time // when it may be dropped; zero: not yet
}

// ledger has the cards of Pods between Reserve and the day when the API server
// shows their decision. It is an index: losing it loses nothing that was bound.
type ledger struct {
	now func() time.Time

	mu       sync.RWMutex
	holds    map[types.UID][]*hold // one for each node
	doubts   map[string]map[types.UID]*hold
	versions map[string]uint64 // of nodes, raised with each change
}

func newLedger(now func() time.Time) *ledger {
	return &ledger{now: now, holds: map[types.UID][]*hold{}, doubts: map[string]map[types.UID]*hold{}, versions: map[string]uint64{}}
}

func (l *ledger) version(node string) uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.versions[node]
}

// find returns a copy of what a Pod holds on a node.
func (l *ledger) find(pod types.UID, node string) (hold, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if h := l.on(pod, node); h != nil {
		return *h, true
	}
	return hold{}, false
}

func (l *ledger) on(pod types.UID, node string) *hold {
	for _, h := range l.holds[pod] {
		if h.node == node {
			return h
		}
	}
	return nil
}

// doubted tells whether a Pod has a Binding in doubt on any node.
func (l *ledger) doubted(pod types.UID) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.ContainsFunc(l.holds[pod], func(h *hold) bool { return !h.doubt.IsZero() })
}

// put notes a decision; one that is there for the Pod on this node is replaced.
// What is in doubt on other nodes stays.
func (l *ledger) put(h hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(h.pod, h.node)
	l.holds[h.pod] = append(l.holds[h.pod], &h)
	l.versions[h.node]++
}

// drop forgets a decision, except one whose Binding may have taken effect.
func (l *ledger) drop(pod types.UID, node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.on(pod, node); h != nil && h.doubt.IsZero() {
		l.remove(pod, node)
	}
}

// doubtful says that a Binding's answer left open whether it took effect.
func (l *ledger) doubtful(pod types.UID, node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.on(pod, node)
	if h == nil {
		return
	}
	h.doubt = l.now() // this Binding may take effect later than those before it
	if l.doubts[node] == nil {
		l.doubts[node] = map[types.UID]*hold{}
	}
	l.doubts[node][pod] = h
	l.versions[node]++
}

// posting says that a Binding is on its way, or answered.
func (l *ledger) posting(pod types.UID, node string, underWay bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.on(pod, node); h != nil {
		h.posted = underWay
	}
}

// settle drops a decision whose Bindings had no effect, unless there was another
// one since h was read. It tells whether it did.
func (l *ledger) settle(h *hold) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.on(h.pod, h.node)
	if now == nil || now.posted || !now.doubt.Equal(h.doubt) {
		return false
	}
	l.remove(h.pod, h.node)
	return true
}

// certain ends a doubt: what the Binding did is known.
func (l *ledger) certain(pod types.UID, node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.on(pod, node); h != nil {
		h.doubt = time.Time{}
		delete(l.doubts[node], pod)
		l.versions[node]++
	}
}

// bound says that the API server shows the Pod on a node; elsewhere it holds
// nothing. Empty means that the Pod is gone. It tells whether that freed cards.
func (l *ledger) bound(pod types.UID, node string) (freed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range slices.Clone(l.holds[pod]) {
		switch {
		case h.node != node && !h.doubt.IsZero():
			l.remove(pod, h.node)
			freed = true
		case h.expiry.IsZero():
			h.expiry = l.now().Add(keptAfter)
		}
	}
	return freed
}

// sweep drops what is no longer needed.
func (l *ledger) sweep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for pod, holds := range l.holds {
		for _, h := range slices.Clone(holds) {
			if !h.expiry.IsZero() && now.After(h.expiry) {
				l.remove(pod, h.node)
			}
		}
	}
}

// remove needs the lock.
func (l *ledger) remove(pod types.UID, node string) {
	left := slices.DeleteFunc(l.holds[pod], func(h *hold) bool { return h.node == node })
	if len(left) == 0 {
		delete(l.holds, pod)
	} else {
		l.holds[pod] = left
	}
	delete(l.doubts[node], pod)
	l.versions[node]++
}

// inDoubt copies the doubts of one node, or of all nodes if it is empty.
func (l *ledger) inDoubt(node string) []hold {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var all []hold
	for name, of := range l.doubts {
		if node == "" || node == name {
			for _, h := range of {
				all = append(all, *h)
			}
		}
	}
	return all
}

// all copies everything, for metrics.
func (l *ledger) all() []hold {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var all []hold
	for _, holds := range slices.Collect(maps.Values(l.holds)) {
		for _, h := range holds {
			all = append(all, *h)
		}
	}
	return all
}
