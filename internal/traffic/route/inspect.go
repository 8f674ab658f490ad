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
	Tokens      int64 // estimated, of what is in flight
	Draining    bool  // taken out; only running requests are left
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
					InFlight: r.load.running(), Tokens: r.load.tokens(), Draining: draining,
				})
			}
		}
	}
	collect(t.replicas, false)
	collect(t.draining, true)
	slices.SortFunc(seen, func(a, b Sighting) int { return strings.Compare(a.EndpointUID, b.EndpointUID) })
	return seen
}

// Cards lists the models of the cards that the ready replicas of k run on, as
// far as they are known, and tells whether one of them is of the class.
func (t *Table) Cards(k Key, class string) (models []string, found bool) {
	for _, r := range t.view.Load().byKey[k] {
		found = found || ofClass(&r.endpoint, class)
		if card := r.endpoint.CardModel; card != "" && !slices.Contains(models, card) {
			models = append(models, card)
		}
	}
	slices.Sort(models)
	return models, found
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

// Standing is one endpoint's load as this gateway knows it.
type Standing struct {
	Endpoint traffic.Endpoint
	InFlight int
	Tokens   int64
	Signal   *Signal // fresh, or nil
	Open     bool    // its breaker keeps requests from it
	Failures int64   // of its own or of its connection, as long as this gateway knows it
}

// Standings lists the load of every endpoint that takes requests, by UID.
func (t *Table) Standings() []Standing {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]Standing, 0, len(t.replicas))
	for _, r := range t.replicas {
		s := Standing{Endpoint: r.endpoint, InFlight: r.load.running(), Tokens: r.load.tokens(), Open: r.load.breaker.until.Load() != 0, Failures: r.load.failures.Load()}
		if signal := r.load.signal.Load(); signal != nil && signal.fresh(now) {
			s.Signal = signal
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Standing) int { return strings.Compare(a.Endpoint.UID, b.Endpoint.UID) })
	return list
}
