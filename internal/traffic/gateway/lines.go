package gateway

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/route"
)

// queueKey names a line: a version, and the class of cards where one is asked
// for, so that who waits for a rare card holds up nobody.
type queueKey struct {
	route.Key
	class string // empty: any
}

// classQueues knows which classes of cards are waited for.
type classQueues struct {
	total atomic.Int64 // requests that wait for a class
	mu    sync.Mutex
	byKey map[route.Key]map[string]int
}

// enter notes a request that waits; the returned function ends that.
func (q *classQueues) enter(k route.Key, class string) (leave func()) {
	if class == "" {
		return func() {}
	}
	q.add(k, class, 1)
	return func() { q.add(k, class, -1) }
}

func (q *classQueues) add(k route.Key, class string, n int) {
	q.total.Add(int64(n))
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.byKey == nil {
		q.byKey = map[route.Key]map[string]int{}
	}
	if q.byKey[k] == nil {
		q.byKey[k] = map[string]int{}
	}
	if q.byKey[k][class] += n; q.byKey[k][class] == 0 {
		delete(q.byKey[k], class)
	}
	if len(q.byKey[k]) == 0 {
		delete(q.byKey, k)
	}
}

func (q *classQueues) of(k route.Key) []string {
	if q.total.Load() == 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	var list []string
	for class := range q.byKey[k] {
		list = append(list, class)
	}
	return list
}

// wakeLines hands the free places of a version to those who wait for it. Where
// some wait for a class of cards, lot decides which line comes first, by the
// tenants that wait in each: to name a class is no way to the front.
func (g *Gateway) wakeLines(k route.Key) {
	classes := g.classed.of(k)
	if len(classes) == 0 {
		g.room.Wake(queueKey{Key: k})
		return
	}
	lines := []queueKey{{Key: k}}
	for _, class := range classes {
		lines = append(lines, queueKey{k, class})
	}
	for len(lines) > 0 {
		i := draw(lines, g.room.Tenants)
		g.room.Wake(lines[i])
		lines = slices.Delete(lines, i, i+1)
	}
}

// draw returns the index of one of lines, each as likely as its weight.
func draw(lines []queueKey, weight func(queueKey) int) int {
	weights, sum := make([]int, len(lines)), 0
	for i, k := range lines {
		weights[i] = weight(k)
		sum += weights[i]
	}
	if sum == 0 {
		return 0
	}
	at := rand.IntN(sum) //nolint:gosec // a lot, no secret
	for i, w := range weights {
		if at -= w; at < 0 {
			return i
		}
	}
	return len(lines) - 1
}

// endpointsChanged hears from the table which versions came, went or moved.
func (g *Gateway) endpointsChanged(keys []route.Key) {
	now := g.cfg.Clock()
	for _, k := range keys {
		if g.cfg.Table.Ready(k) {
			g.starts.Ready(k, now)
			g.wakes.ready(k)
		} else {
			g.starts.Begin(k, now)
		}
		g.wakeLines(k)
	}
}

// SnapshotChanged is a hint that Config.Snapshot returns something new: those
// who wait for a model that failed or is gone learn it at once.
func (g *Gateway) SnapshotChanged() {
	view, err := g.known()
	if err != nil {
		return
	}
	for k := range g.room.Queues() {
		if err := view.fate(k.Key); err != nil {
			g.room.Fail(k, err)
		}
	}
	now := g.cfg.Clock()
	for i := range view.snapshot.Models {
		m := &view.snapshot.Models[i]
		switch k := keyOf(m); {
		case g.cfg.Table.Ready(k):
		case m.Asleep && !g.wakes.asked(k), m.Failure != "":
			g.starts.Stop(k)
		case !m.Pending && !m.ReleaseAsked:
			g.starts.Begin(k, now)
		}
	}
	served := func(k route.Key) bool { return view.version(k) != nil }
	g.starts.Keep(served)
	g.wakes.keep(served)
}

// recheck looks by itself whether a line still makes sense.
func (g *Gateway) recheck(k queueKey) error {
	view, err := g.known()
	if err != nil {
		return nil //nolint:nilerr // what was known when the wait began still holds
	}
	if err := view.fate(k.Key); err != nil {
		return err
	}
	if m := view.version(k.Key); m != nil && !g.cfg.Table.Ready(k.Key) {
		g.wakeUp(m, g.cfg.Clock())
	}
	return nil
}

// version returns the live model of a key, nil if there is none.
func (i *index) version(k route.Key) *traffic.Model {
	for _, m := range i.live[ownedName{k.Owner, k.Model}] {
		if m.Version == k.Version {
			return m
		}
	}
	return nil
}

// fate is nil while version k may still become ready.
func (i *index) fate(k route.Key) error {
	if m := i.version(k); m != nil {
		return hopeless(m)
	}
	return i.absent(k.Model, k.Owner, k.Model)
}

// Waiting tells for every version how many requests wait for it.
func (g *Gateway) Waiting() map[route.Key]int {
	waiting := map[route.Key]int{}
	for k, q := range g.room.Queues() {
		waiting[k.Key] += q.Waiting
	}
	return waiting
}

// Drain ends every wait, because the gateway stops: those who wait have
// nothing to lose and find another gateway, or this one after its restart.
// What runs goes on.
func (g *Gateway) Drain() { g.room.Close(stopping()) }
