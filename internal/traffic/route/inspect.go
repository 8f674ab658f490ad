package route

import (
	"slices"
	"strings"
	"time"

	"modeldock.io/internal/traffic"
)

// Sighting is the evidence that this gateway can route to a replica.
type Sighting struct {
	EndpointUID string
	Address     string
	Since       time.Time
	InFlight    int
	Draining    bool // taken out; only running requests are left
}

// InFlight tells how many requests run on a replica, also on one that was
// removed and still drains. An unknown UID has none.
func (t *Table) InFlight(uid string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.replicas[uid]; r != nil {
		return r.load.running()
	}
	if r := t.draining[uid]; r != nil {
		return r.load.running()
	}
	return 0
}

// Seen lists the replicas of one reservation, by UID: what the step
// "routable" of the evidence is proved with. A reservation's id is unique
// within its owner.
func (t *Table) Seen(owner, requestID string) []Sighting {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forgetDrained()
	var seen []Sighting
	collect := func(replicas map[string]*replica, draining bool) {
		for uid, r := range replicas {
			e := r.endpoint
			if e.Owner == owner && e.RequestID == requestID {
				seen = append(seen, Sighting{
					EndpointUID: uid, Address: e.Address, Since: e.Since,
					InFlight: r.load.running(), Draining: draining,
				})
			}
		}
	}
	collect(t.replicas, false)
	collect(t.draining, true)
	slices.SortFunc(seen, func(a, b Sighting) int { return strings.Compare(a.EndpointUID, b.EndpointUID) })
	return seen
}

// Endpoints lists what takes requests now, by UID.
func (t *Table) Endpoints() []traffic.Endpoint {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]traffic.Endpoint, 0, len(t.replicas))
	for _, r := range t.replicas {
		list = append(list, r.endpoint)
	}
	slices.SortFunc(list, func(a, b traffic.Endpoint) int { return strings.Compare(a.UID, b.UID) })
	return list
}

// InFlightByKey sums the running requests of each version, draining ones
// included.
func (t *Table) InFlightByKey() map[Key]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	sums := map[Key]int{}
	for _, r := range t.replicas {
		sums[KeyOf(r.endpoint)] += r.load.running()
	}
	for _, r := range t.draining {
		sums[KeyOf(r.endpoint)] += r.load.running()
	}
	return sums
}
