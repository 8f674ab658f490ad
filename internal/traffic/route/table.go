// Package route is the traffic account's endpoint table: it knows which
// replicas take requests now, picks one for each request and counts what is
// in flight on it.
//
// Readers take no lock: every change publishes a new immutable view. A
// reservation is made atomically with the selection, so that once Remove has
// returned, no further request can reach the removed replica, while those
// that run already finish and stay visible in InFlight.
package route

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"modeldock.io/internal/traffic"
)

// Key names one version of a served model.
type Key struct {
	Owner   string
	Model   string
	Version string
}

// KeyOf returns the version that an endpoint serves.
func KeyOf(e traffic.Endpoint) Key {
	return Key{Owner: e.Owner, Model: e.Model, Version: e.Version}
}

// Table holds the endpoints. All methods may be called concurrently.
type Table struct {
	now  func() time.Time
	view atomic.Pointer[view]

	mu        sync.Mutex // orders writers and guards what follows
	replicas  map[string]*replica
	draining  map[string]*replica // closed, some requests still running
	listeners map[int]func([]Key)
	nextID    int
}

// view is what readers see: never changed after it was published.
type view struct {
	byKey map[Key][]*replica
}

// New returns an empty table; now is the clock that stamps Endpoint.Since.
func New(now func() time.Time) *Table {
	t := &Table{
		now:       now,
		replicas:  map[string]*replica{},
		draining:  map[string]*replica{},
		listeners: map[int]func([]Key){},
	}
	t.view.Store(&view{byKey: map[Key][]*replica{}})
	return t
}

// Set replaces the whole table by a full list: what the list does not have is
// removed. Two entries of one UID are one replica; the last one counts.
func (t *Table) Set(list []traffic.Endpoint) {
	wanted := make(map[string]traffic.Endpoint, len(list))
	for _, e := range list {
		wanted[e.UID] = e
	}
	t.change(func(touched map[Key]struct{}) {
		for uid := range t.replicas {
			if _, keep := wanted[uid]; !keep {
				t.drop(uid, touched)
			}
		}
		for _, e := range wanted {
			t.put(e, touched)
		}
	})
}

// Upsert adds an endpoint or replaces the one with its UID. Requests in
// flight on that UID stay counted.
func (t *Table) Upsert(e traffic.Endpoint) {
	t.change(func(touched map[Key]struct{}) { t.put(e, touched) })
}

// Remove takes an endpoint out. When it returns, no new request reaches it;
// InFlight tells how many still run. An unknown UID is no error.
func (t *Table) Remove(uid string) {
	t.change(func(touched map[Key]struct{}) { t.drop(uid, touched) })
}

// OnChange calls f after every change with the versions it touched. f runs on
// the writer's goroutine without the table's lock and must not block for
// long. The returned function ends the subscription.
func (t *Table) OnChange(f func([]Key)) (stop func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id := t.nextID
	t.nextID++
	t.listeners[id] = f
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.listeners, id)
	}
}

// change applies one edit, publishes the view and tells the listeners.
func (t *Table) change(edit func(touched map[Key]struct{})) {
	touched := map[Key]struct{}{}
	t.mu.Lock()
	edit(touched)
	if len(touched) > 0 {
		t.publish(touched)
	}
	t.forgetDrained()
	listeners := make([]func([]Key), 0, len(t.listeners))
	for _, f := range t.listeners {
		listeners = append(listeners, f)
	}
	t.mu.Unlock()

	if len(touched) == 0 {
		return
	}
	keys := make([]Key, 0, len(touched))
	for k := range touched {
		keys = append(keys, k)
	}
	for _, f := range listeners {
		f(keys)
	}
}

// put stamps the endpoint and reuses the in-flight count of its UID.
func (t *Table) put(e traffic.Endpoint, touched map[Key]struct{}) {
	r := &replica{endpoint: e, load: &load{}, seed: hash([]byte(e.UID))}
	switch old, gone := t.replicas[e.UID], t.draining[e.UID]; {
	case old != nil:
		r.load = old.load
		if r.endpoint.Since.IsZero() {
			r.endpoint.Since = old.endpoint.Since
		}
		if r.endpoint == old.endpoint {
			return
		}
		touched[KeyOf(old.endpoint)] = struct{}{}
		if e.Address != old.endpoint.Address {
			r.load.breaker.succeeded() // what failed was another process
		}
	case gone != nil:
		// It came back while requests of its first life still run.
		r.load = gone.load
		r.load.reopen()
		r.load.breaker.succeeded()
		delete(t.draining, e.UID)
	}
	if r.endpoint.Since.IsZero() {
		r.endpoint.Since = t.now()
	}
	t.replicas[e.UID] = r
	touched[KeyOf(e)] = struct{}{}
}

func (t *Table) drop(uid string, touched map[Key]struct{}) {
	r := t.replicas[uid]
	if r == nil {
		return
	}
	r.load.close()
	delete(t.replicas, uid)
	t.draining[uid] = r
	touched[KeyOf(r.endpoint)] = struct{}{}
}

// publish rebuilds the lists of the touched versions and shares the others.
func (t *Table) publish(touched map[Key]struct{}) {
	old := t.view.Load()
	next := &view{byKey: make(map[Key][]*replica, len(old.byKey)+len(touched))}
	for k, list := range old.byKey {
		if _, rebuild := touched[k]; !rebuild {
			next.byKey[k] = list
		}
	}
	for _, r := range t.replicas {
		k := KeyOf(r.endpoint)
		if _, rebuild := touched[k]; rebuild {
			next.byKey[k] = append(next.byKey[k], r)
		}
	}
	for k := range touched {
		slices.SortFunc(next.byKey[k], byUID)
	}
	t.view.Store(next)
}

func (t *Table) forgetDrained() {
	for uid, r := range t.draining {
		if r.load.running() == 0 {
			delete(t.draining, uid)
		}
	}
}

// random is the picker's source; the top-level generator is safe for
// concurrent use and needs no seed.
func random(n int) int { return rand.IntN(n) } //nolint:gosec // it spreads load, nobody gains by guessing it
