package delivery

import (
	"context"
	"fmt"

	"modeldock.io/internal/budget"
)

// books are what the ledger says of the requests that hold slots.
type books struct {
	reserved []budget.Reservation // in order of arrival
	live     map[budget.Ref]budget.Reservation
	bound    map[budget.Ref]budget.Binding
}

// read asks the ledger first, in two questions for all requests, and the
// target then: what the books have bound existed before the objects were
// listed, and is missing among them only if it went away. A request that
// ended between the two questions looks as if it were not delivered. What came
// or changed since is looked up again before anything is said about it.
func (r *Reconciler) read(ctx context.Context) (b books, statuses []Status, err error) {
	if b.reserved, err = r.cfg.Ledger.List(ctx, budget.Filter{State: budget.Reserved}); err != nil {
		return b, nil, fmt.Errorf("list reservations: %w", err)
	}
	if b.bound, err = r.cfg.Ledger.LiveBindings(ctx); err != nil {
		return b, nil, fmt.Errorf("read what the reservations are bound to: %w", err)
	}
	if statuses, err = r.cfg.Target.List(ctx); err != nil {
		return b, nil, fmt.Errorf("list the target's objects: %w", err)
	}
	b.live = make(map[budget.Ref]budget.Reservation, len(b.reserved))
	for _, res := range b.reserved {
		b.live[res.Ref] = res
	}
	return b, statuses, nil
}
