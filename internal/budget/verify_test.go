package budget_test

import (
	"testing"

	"modeldock.io/internal/budget"
)

func ref(id string) budget.Ref { return budget.Ref{Tenant: "a", ID: id} }

// story has one waiting, one reserved and bound, and one released request.
func story() budget.Snapshot {
	return budget.Snapshot{
		At:      noon,
		Tenants: []budget.Tenant{{Name: "a", Cap: 4, Used: 2}, {Name: "b", Cap: 1}},
		Pools:   []budget.Pool{{Name: "default", Cap: 10, Used: 2}},
		Reservations: []budget.Reservation{
			{Ref: ref("waits"), Seq: 1, Revision: 1, Cost: 1, State: budget.Waiting, Pool: "default"},
			{Ref: ref("runs"), Seq: 2, Revision: 2, Cost: 2, State: budget.Reserved, Pool: "default", Held: 2, Funded: 1, ReservedAt: noon},
			{Ref: ref("ended"), Seq: 3, Revision: 4, Cost: 1, State: budget.Released, Pool: "default", ReservedAt: noon, ReleaseRequestedAt: noon, ReleasedAt: noon},
			{Ref: ref("late"), Seq: 4, Revision: 2, Cost: 1, State: budget.Expired, Pool: "default"},
			{Ref: ref("left"), Seq: 5, Revision: 2, Cost: 1, State: budget.Released, Pool: "default", ReleaseRequestedAt: noon, ReleasedAt: noon},
		},
		Entries: []budget.Entry{
			{Ref: ref("runs"), Seq: 1, Pool: "default", Op: budget.OpReserve, Revision: 2, Slots: 2},
			{Ref: ref("ended"), Seq: 2, Pool: "default", Op: budget.OpReserve, Revision: 2, Slots: 1},
			{Ref: ref("ended"), Seq: 3, Pool: "default", Op: budget.OpRelease, Revision: 4, Slots: -1},
		},
		Intents: []budget.Intent{
			{Ref: ref("runs"), Seq: 1, Op: budget.Apply, Funded: 1}, {Ref: ref("ended"), Seq: 2, Op: budget.Apply}, {Ref: ref("ended"), Seq: 3, Op: budget.Delete},
		},
		Bindings: []budget.Binding{
			{Ref: ref("runs"), Object: budget.Object{Namespace: "n", Name: "x", UID: "u1"}},
			{Ref: ref("ended"), Object: budget.Object{Namespace: "n", Name: "y", UID: "u2"}},
		},
	}
}

func TestVerifyCatches(t *testing.T) {
	t.Parallel()
	if report := budget.Verify(story()); !report.Clean() {
		t.Fatalf("a true story is reported: %+v", report.Violations)
	}
	for _, c := range []struct {
		what, invariant string
		breakIt         func(*budget.Snapshot)
	}{
		{"used above what is held", "INV1", func(s *budget.Snapshot) { s.Tenants[0].Used++ }},
		{"used below zero", "INV1", func(s *budget.Snapshot) { s.Tenants[1].Used = -1 }},
		{"a tenant without a row", "INV1", func(s *budget.Snapshot) { s.Tenants = s.Tenants[1:] }},
		{"pool used below what is held", "INV2", func(s *budget.Snapshot) { s.Pools[0].Used-- }},
		{"a pool without a row", "INV2", func(s *budget.Snapshot) { s.Pools = nil }},
		{"a shared uid", "INV3", func(s *budget.Snapshot) { s.Bindings[1].UID = "u1" }},
		{"a shared object", "INV3", func(s *budget.Snapshot) { s.Bindings[1].Name = "x" }},
		{"two objects", "INV3", func(s *budget.Snapshot) { s.Bindings[1].Ref = s.Bindings[0].Ref }},
		{"no uid", "INV3", func(s *budget.Snapshot) { s.Bindings[0].UID = "" }},
		{"a bound stranger", "INV3", func(s *budget.Snapshot) { s.Bindings[0].ID = "stranger" }},
		{"bound while waiting", "INV3", func(s *budget.Snapshot) { s.Bindings[0].ID = "waits" }},
		{"waiting holds slots", "INV4", func(s *budget.Snapshot) { s.Reservations[0].Held = 1 }},
		{"waiting after a release", "INV4", func(s *budget.Snapshot) { s.Reservations[0].ReleasedAt = noon }},
		{"reserved holds nothing", "INV4", func(s *budget.Snapshot) { s.Reservations[1].Held = 0 }},
		{"released holds slots", "INV4", func(s *budget.Snapshot) { s.Reservations[2].Held = 1 }},
		{"released unasked", "INV4", func(s *budget.Snapshot) { s.Reservations[2].ReleaseRequestedAt = s.Reservations[0].ReservedAt }},
		{"a state of its own", "INV4", func(s *budget.Snapshot) { s.Reservations[3].State = "lost" }},
		{"a part of a replica", "INV4", func(s *budget.Snapshot) { s.Reservations[1].Held = 3 }},
		{"more replicas than are held for", "INV4", func(s *budget.Snapshot) { s.Reservations[1].Funded = 2 }},
		{"reserved without a replica", "INV4", func(s *budget.Snapshot) { s.Reservations[1].Funded = 0 }},
		{"waiting with a replica", "INV4", func(s *budget.Snapshot) { s.Reservations[0].Funded = 1 }},
		{"delivery was told another count", "INV5", func(s *budget.Snapshot) { s.Intents[0].Funded = 2 }},
		{"delivery was not told of a generation", "INV5", func(s *budget.Snapshot) { s.Reservations[1].Generation = 2 }},
		{"a growth that gives", "INV6", func(s *budget.Snapshot) { s.Entries[0].Op = budget.OpShrink }},
		{"a shrink that takes", "INV6", func(s *budget.Snapshot) {
			s.Entries = append(s.Entries, budget.Entry{Ref: ref("runs"), Seq: 4, Pool: "default", Op: budget.OpShrink, Revision: 1, Slots: 2})
		}},
		{"a shrink that nobody holds less for", "INV6", func(s *budget.Snapshot) {
			s.Entries = append(s.Entries, budget.Entry{Ref: ref("runs"), Seq: 4, Pool: "default", Op: budget.OpShrink, Revision: 1, Slots: -1})
		}},
		{"no first intent", "INV5", func(s *budget.Snapshot) { s.Intents = s.Intents[1:] }},
		{"no debit", "INV5", func(s *budget.Snapshot) { s.Entries = s.Entries[1:] }},
		{"no delete", "INV5", func(s *budget.Snapshot) { s.Intents = s.Intents[:2] }},
		{"an intent of a waiting one", "INV5", func(s *budget.Snapshot) { s.Intents[0].ID = "waits" }},
		{"an intent of nobody", "INV5", func(s *budget.Snapshot) { s.Intents[0].ID = "stranger" }},
		{"two entries of one revision", "INV6", func(s *budget.Snapshot) { s.Entries[2].Revision = 2 }},
		{"two credits", "INV6", func(s *budget.Snapshot) { s.Entries = append(s.Entries, s.Entries[2]) }},
		{"an entry of the future", "INV6", func(s *budget.Snapshot) { s.Entries[0].Revision = 9 }},
		{"a debit of less than nothing", "INV6", func(s *budget.Snapshot) { s.Entries[0].Slots = -2 }},
		{"an entry in another pool", "INV6", func(s *budget.Snapshot) { s.Entries[0].Pool = "other" }},
		{"an entry of nobody", "INV6", func(s *budget.Snapshot) { s.Entries[0].ID = "stranger" }},
		{"held without a journal", "INV6", func(s *budget.Snapshot) { s.Entries = s.Entries[1:] }},
		{"one request stored twice", "INV6", func(s *budget.Snapshot) { s.Reservations = append(s.Reservations, s.Reservations[0]) }},
	} {
		s := story()
		c.breakIt(&s)
		caught := false
		for _, v := range budget.Verify(s).Violations {
			caught = caught || v.Invariant == c.invariant && v.Subject != "" && v.Message != ""
		}
		if !caught {
			t.Errorf("%s: %s is not reported: %+v", c.what, c.invariant, budget.Verify(s).Violations)
		}
	}
}
