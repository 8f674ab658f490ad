package budget

import (
	"cmp"
	"maps"
	"slices"

	"modeldock.io/internal/fair"
)

// Waiters are requests that wait.
type Waiters struct {
	Requests []Reservation
	// More has the tenants of which more wait, and how many in all.
	More map[string]int64
}

// PickWaiters joins the heads of the tenants' queues into at most so many
// requests, each tenant's head in any case. head returns the first n of one
// tenant's own queue; held says how long that is, and has no empty ones.
func PickWaiters(held map[string]int64, most int, head func(tenant string, n int64) ([]Reservation, error)) (Waiters, error) {
	var w Waiters
	share := max(1, fair.EvenShare(slices.Collect(maps.Values(held)), int64(most)))
	for tenant, n := range held {
		if n > share {
			if w.More == nil {
				w.More = map[string]int64{}
			}
			w.More[tenant] = n
		}
		rows, err := head(tenant, min(n, share))
		if err != nil {
			return Waiters{}, err
		}
		w.Requests = append(w.Requests, rows...)
	}
	slices.SortFunc(w.Requests, func(a, b Reservation) int { return cmp.Compare(a.Seq, b.Seq) })
	return w, nil
}
