package budget

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Snapshot is every row that the invariants speak of, read at one moment.
// Models and payloads may be left out.
type Snapshot struct {
	At           time.Time
	Tenants      []Tenant
	Pools        []Pool
	Reservations []Reservation
	Entries      []Entry  // in the order they were written
	Intents      []Intent // in the order they were written
	Bindings     []Binding
}

// Verify recomputes every invariant from the rows; it trusts no sum and no
// constraint of the store.
func Verify(s Snapshot) Report {
	c := &checker{snapshot: s, report: Report{
		At: s.At, Tenants: len(s.Tenants), Pools: len(s.Pools), Reservations: len(s.Reservations), Entries: len(s.Entries),
	}}
	c.index()
	c.checkTenants()      // INV1
	c.checkPools()        // INV2
	c.checkBindings()     // INV3
	c.checkStates()       // INV4
	c.checkReservations() // INV5
	c.checkJournal()      // INV6
	slices.SortStableFunc(c.report.Violations, func(a, b Violation) int {
		return cmp.Or(strings.Compare(a.Invariant, b.Invariant), strings.Compare(a.Subject, b.Subject))
	})
	return c.report
}

type checker struct {
	snapshot     Snapshot
	report       Report
	reservations map[Ref]Reservation
	entries      map[Ref][]Entry
	intents      map[Ref][]Intent
}

func (c *checker) fail(invariant, subject, format string, args ...any) {
	c.report.Violations = append(c.report.Violations, Violation{Invariant: invariant, Subject: subject, Message: fmt.Sprintf(format, args...)})
}

func (c *checker) index() {
	c.reservations = make(map[Ref]Reservation, len(c.snapshot.Reservations))
	c.entries, c.intents = map[Ref][]Entry{}, map[Ref][]Intent{}
	for _, r := range c.snapshot.Reservations {
		if _, twice := c.reservations[r.Ref]; twice {
			c.fail("INV6", subject(r.Ref), "is stored twice")
		}
		c.reservations[r.Ref] = r
	}
	for _, e := range c.snapshot.Entries {
		c.entries[e.Ref] = append(c.entries[e.Ref], e)
	}
	for _, in := range c.snapshot.Intents {
		c.intents[in.Ref] = append(c.intents[in.Ref], in)
	}
}

func subject(ref Ref) string { return "request " + ref.Tenant + "/" + ref.ID }

// checkTenants: used = Σ held of the reserved rows = Σ of the journal, per tenant.
func (c *checker) checkTenants() {
	held, journal := map[string]int64{}, map[string]int64{}
	for _, r := range c.snapshot.Reservations {
		if r.State == Reserved {
			held[r.Tenant] += r.Held
		}
	}
	for _, e := range c.snapshot.Entries {
		journal[e.Tenant] += e.Slots
	}
	known := map[string]bool{}
	for _, t := range c.snapshot.Tenants {
		known[t.Name] = true
		c.compare("INV1", "tenant "+t.Name, t.Used, held[t.Name], journal[t.Name])
	}
	c.strangers("INV1", "tenant ", known, held, journal)
}

// checkPools: the same per pool.
func (c *checker) checkPools() {
	held, journal := map[string]int64{}, map[string]int64{}
	for _, r := range c.snapshot.Reservations {
		if r.State == Reserved {
			held[r.Pool] += r.Held
		}
	}
	for _, e := range c.snapshot.Entries {
		journal[e.Pool] += e.Slots
	}
	known := map[string]bool{}
	for _, p := range c.snapshot.Pools {
		known[p.Name] = true
		c.compare("INV2", "pool "+p.Name, p.Used, held[p.Name], journal[p.Name])
	}
	c.strangers("INV2", "pool ", known, held, journal)
}

func (c *checker) compare(invariant, subject string, used, held, journal int64) {
	if used != held || used != journal {
		c.fail(invariant, subject, "used is %d, its reserved requests hold %d, its journal sums to %d", used, held, journal)
	}
	if used < 0 {
		c.fail(invariant, subject, "used is %d, below zero", used)
	}
}

// strangers reports slots of accounts that have no row at all.
func (c *checker) strangers(invariant, kind string, known map[string]bool, sums ...map[string]int64) {
	reported := map[string]bool{}
	for _, sum := range sums {
		for name, slots := range sum {
			if slots != 0 && !known[name] && !reported[name] {
				reported[name] = true
				c.fail(invariant, kind+name, "holds %d slots but does not exist", slots)
			}
		}
	}
}
