package elastic

import (
	"cmp"
	"slices"
	"time"
)

// Tenant is a model on a card that another one may need.
type Tenant struct {
	Name     string
	Priority int
	Batch    bool // yields before online of the same priority
	Replicas int
	Warm     int // replicas that its owner pays to keep warm
	InFlight int
	Waiting  int
	ReadyAt  time.Time     // zero: it still loads
	Loading  time.Duration // how long its start took
	LastUsed time.Time
	MiB      int64 // that one replica gives back
}

// MinResidence is how long a model has its card before it may be asked to
// yield, so that two of them do not swap each other in turn.
const MinResidence = time.Minute

// loadShare bounds the time that is spent loading: a model keeps its card for
// three times as long as its start took, so that it is a quarter at most.
const loadShare = 3

// Yield chooses which replicas make room of at least need MiB for a model that
// wakes with a priority: batch first, lowest priority, longest idle. Nothing
// with a request, nothing of a higher priority and nothing that has had its
// card for less than the residence; nil if that does not suffice, because then
// nobody should lose a card.
func Yield(all []Tenant, need int64, priority int, residence time.Duration, now time.Time) []string {
	var free []Tenant
	for _, t := range all {
		busy := t.InFlight+t.Waiting > 0
		if busy || t.Priority > priority || t.ReadyAt.IsZero() || now.Sub(t.ReadyAt) < max(residence, loadShare*t.Loading) {
			continue
		}
		for range t.Replicas - t.Warm {
			free = append(free, t)
		}
	}
	slices.SortStableFunc(free, func(a, b Tenant) int {
		if a.Batch != b.Batch {
			if a.Batch {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.LastUsed.Compare(b.LastUsed), cmp.Compare(a.Name, b.Name))
	})
	var names []string
	for _, t := range free {
		if need <= 0 {
			break
		}
		names = append(names, t.Name)
		need -= t.MiB
	}
	if need > 0 {
		return nil
	}
	return names
}
