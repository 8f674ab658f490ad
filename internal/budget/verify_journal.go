package budget

// checkJournal is INV6: one entry per revision, one debit by reserve and one
// credit by release, and every reservation's entries sum to what it holds.
func (c *checker) checkJournal() {
	for ref, entries := range c.entries {
		r, known := c.reservations[ref]
		if !known {
			c.fail("INV6", subject(ref), "has %d journal entries but does not exist", len(entries))
			continue
		}
		c.checkEntries(r, entries)
	}
	for ref, r := range c.reservations {
		if len(c.entries[ref]) == 0 && r.Held != 0 {
			c.fail("INV6", subject(ref), "holds %d slots without a journal entry", r.Held)
		}
	}
}

func (c *checker) checkEntries(r Reservation, entries []Entry) {
	s := subject(r.Ref)
	var sum int64
	revisions, ops := map[int64]bool{}, map[Op]int{}
	for _, e := range entries {
		if revisions[e.Revision] {
			c.fail("INV6", s, "has two journal entries of revision %d", e.Revision)
		}
		revisions[e.Revision] = true
		ops[e.Op]++
		if e.Revision > r.Revision {
			c.fail("INV6", s, "has a journal entry of revision %d but is only at %d", e.Revision, r.Revision)
		}
		if debit := e.Op == OpReserve || e.Op == OpGrow; e.Slots == 0 || debit != (e.Slots > 0) {
			c.fail("INV6", s, "has a %s entry of %d slots", e.Op, e.Slots)
		}
		if e.Pool != r.Pool {
			c.fail("INV6", s, "is in pool %s but has an entry in pool %s", r.Pool, e.Pool)
		}
		if sum += e.Slots; sum < 0 {
			c.fail("INV6", s, "was credited more than it was debited: %d slots after entry %d", sum, e.Seq)
		}
	}
	if ops[OpReserve] != 1 || ops[OpRelease] > 1 {
		c.fail("INV6", s, "has %d debits by reserve and %d credits by release", ops[OpReserve], ops[OpRelease])
	}
	if sum != r.Held {
		c.fail("INV6", s, "holds %d slots, its journal sums to %d", r.Held, sum)
	}
}
