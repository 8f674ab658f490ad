package placement

import (
	"fmt"
	"math"
)

// Largest memory that may be stated for anything, in MiB: 2^40 MiB is an
// exbibyte, far above any card and far below what sums could overflow with.
const maxMiB = int64(1) << 40

// Free returns the free memory of every card, by uuid: total − reserve −
// allocations − what is measured but accounted to nobody. An unhealthy card
// has none. Over-full cards show 0, never a negative figure.
//
// Sizes are checked, not trusted: a figure that is not positive or out of
// range, an allocation on a card that does not exist, or a sum that overflows
// is an error.
func Free(nodes []Node, allocations []Allocation) (map[string]int64, error) {
	free := map[string]int64{}
	healthy := map[string]bool{}
	for _, n := range nodes {
		for _, c := range n.Cards {
			if _, twice := free[c.UUID]; twice {
				return nil, fmt.Errorf("card %s is listed twice", c.UUID)
			}
			if err := checkCard(c); err != nil {
				return nil, err
			}
			free[c.UUID] = c.TotalMiB - c.ReservedMiB - c.UnaccountedMiB
			healthy[c.UUID] = c.Healthy
		}
	}
	for _, a := range allocations {
		have, known := free[a.Card]
		if !known {
			continue // a card that left the inventory has nothing to give
		}
		if a.MiB <= 0 || a.MiB > maxMiB {
			return nil, fmt.Errorf("allocation of %s on card %s is %d MiB; it must be from 1 to %d", a.Owner, a.Card, a.MiB, maxMiB)
		}
		left, ok := sub(have, a.MiB)
		if !ok {
			return nil, fmt.Errorf("the allocations on card %s overflow", a.Card)
		}
		free[a.Card] = left
	}
	for uuid, f := range free {
		if f < 0 || !healthy[uuid] {
			free[uuid] = 0
		}
	}
	return free, nil
}

func checkCard(c Card) error {
	switch {
	case c.UUID == "":
		return fmt.Errorf("a card of %d MiB has no uuid", c.TotalMiB)
	case c.TotalMiB <= 0 || c.TotalMiB > maxMiB:
		return fmt.Errorf("card %s has %d MiB; it must be from 1 to %d", c.UUID, c.TotalMiB, maxMiB)
	case c.ReservedMiB < 0 || c.ReservedMiB > maxMiB || c.UnaccountedMiB < 0 || c.UnaccountedMiB > maxMiB:
		return fmt.Errorf("card %s keeps %d MiB back and %d MiB are unaccounted; both must be from 0 to %d", c.UUID, c.ReservedMiB, c.UnaccountedMiB, maxMiB)
	}
	return nil
}

// sub is a − b with b > 0; false where it would overflow.
func sub(a, b int64) (int64, bool) {
	if a < math.MinInt64+b {
		return 0, false
	}
	return a - b, true
}
