package budget

import "modeldock.io/internal/modelspec"

// checkStates is INV4: what a row says about itself must be reachable by the
// permitted moves waiting → reserved → released, waiting → expired and
// waiting → released, and its slots must pay for the replicas that may run.
func (c *checker) checkStates() {
	for _, r := range c.snapshot.Reservations {
		s := subject(r.Ref)
		switch r.State {
		case Waiting, Expired:
			if !r.ReservedAt.IsZero() || !r.ReleasedAt.IsZero() || !r.ReleaseRequestedAt.IsZero() {
				c.fail("INV4", s, "is %s but carries the time of a reservation or release", r.State)
			}
		case Reserved:
			if r.ReservedAt.IsZero() || !r.ReleasedAt.IsZero() {
				c.fail("INV4", s, "is reserved but has no time of reservation, or has one of release")
			}
		case Released:
			if r.ReleasedAt.IsZero() || r.ReleaseRequestedAt.IsZero() {
				c.fail("INV4", s, "is released but has no time of release, or nobody asked for it")
			}
		default:
			c.fail("INV4", s, "has the unknown state %q", r.State)
		}
		if (r.State == Reserved) != (r.Held > 0) {
			c.fail("INV4", s, "is %s and holds %d slots", r.State, r.Held)
		}
		if (r.State == Reserved) != (r.Funded > 0) {
			c.fail("INV4", s, "is %s and %d replicas are funded", r.State, r.Funded)
		}
		switch {
		case r.Funded > modelspec.MaxReplicas || r.Cost > MaxCost:
			c.fail("INV4", s, "has %d funded replicas of cost %d; a request can have %d of cost %d", r.Funded, r.Cost, modelspec.MaxReplicas, MaxCost)
		case r.Surplus() < 0:
			c.fail("INV4", s, "holds %d slots, fewer than %d funded replicas of cost %d take", r.Held, r.Funded, r.Cost)
		}
		if r.Cost > 0 && r.Held%r.Cost != 0 {
			c.fail("INV4", s, "holds %d slots, which is not a multiple of its cost %d", r.Held, r.Cost)
		}
	}
}

// checkReservations is INV5: whoever was reserved has its debit and its first
// intent; whoever was not has neither.
func (c *checker) checkReservations() {
	for _, r := range c.snapshot.Reservations {
		entries, intents := c.entries[r.Ref], c.intents[r.Ref]
		s := subject(r.Ref)
		if r.ReservedAt.IsZero() {
			if len(entries) > 0 || len(intents) > 0 {
				c.fail("INV5", s, "was never reserved but has %d journal entries and %d intents", len(entries), len(intents))
			}
			continue
		}
		if len(entries) == 0 || entries[0].Op != OpReserve {
			c.fail("INV5", s, "was reserved but its journal does not begin with a debit")
		}
		if len(intents) == 0 || intents[0].Op != Apply {
			c.fail("INV5", s, "was reserved but no apply intent was written with it")
		}
		if r.State == Reserved {
			c.checkFunded(r, intents)
		}
		if !r.ReleaseRequestedAt.IsZero() && !hasDelete(intents) {
			c.fail("INV5", s, "was asked to be released but no delete intent was written with it")
		}
	}
	for ref, intents := range c.intents {
		if _, known := c.reservations[ref]; !known {
			c.fail("INV5", subject(ref), "has %d intents but does not exist", len(intents))
		}
	}
}

// checkFunded: delivery was told of the latest generation, with the count that
// is paid for.
func (c *checker) checkFunded(r Reservation, intents []Intent) {
	for _, in := range intents {
		if in.Op != Apply || in.Generation != r.Generation {
			continue
		}
		if in.Funded != r.Funded {
			c.fail("INV5", subject(r.Ref), "has %d funded replicas, its apply intent of generation %d says %d", r.Funded, r.Generation, in.Funded)
		}
		return
	}
	c.fail("INV5", subject(r.Ref), "is at generation %d but no apply intent of it was written", r.Generation)
}

func hasDelete(intents []Intent) bool {
	for _, in := range intents {
		if in.Op == Delete {
			return true
		}
	}
	return false
}
