package budget_test

import (
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/budget"
)

// Every reason has its words and figures once somebody reads it.
func TestStandingsAreExplained(t *testing.T) {
	t.Parallel()
	late := waiting(1, "b", "late", 1, time.Hour)
	late.ExpiresAt = noon
	q := newQueue(4, 10)
	for _, c := range []struct {
		r      budget.Request
		reason budget.Reason
		behind string
		says   string
	}{
		{late, budget.TTLElapsed, "", "waited past its time to live, which ended at 2026-03-01T12:00:00Z; the next round expires it"},
		{waiting(2, "a", "huge", 5, 0), budget.ExceedsQuota, "", "this request needs 5 slots; tenant a may hold 4 in all: ask for a higher quota, or submit a smaller request"},
		{waiting(3, "a", "fits", 3, 0), budget.AwaitingAdmission, "", "tenant a holds 0 of 4 slots, pool default holds 4 of 10 slots; this request needs 3 and is taken by the next admission round"},
		{waiting(4, "a", "more", 2, 0), budget.QuotaBlocked, "", "tenant a holds 0 of 4 slots and 3 more go to requests ahead; this request needs 2"},
		{waiting(5, "a", "head", 2, time.Hour), budget.QuotaBlocked, "", "tenant a holds 0 of 4 slots and 3 more go to requests ahead; this request needs 2"},
		{waiting(6, "a", "tail", 1, 0), budget.QueuedBehind, "head", "tenant a holds 0 of 4 slots and 3 more go to requests ahead, and what comes free is kept for a request ahead that needs 2 and waits since 2026-03-01T11:00:00Z; this request needs 1"},
		{waiting(7, "b", "wide", 4, time.Hour), budget.PoolBlocked, "", "pool default holds 4 of 10 slots and 3 more go to requests ahead; this request needs 4"},
		{waiting(8, "b", "last", 1, 0), budget.QueuedBehind, "wide", "pool default holds 4 of 10 slots and 3 more go to requests ahead, and what comes free is kept for a request ahead that needs 4 and waits since 2026-03-01T11:00:00Z; this request needs 1"},
	} {
		s := q.Next(c.r)
		if s.Message != "" {
			t.Errorf("%s has words before anybody reads them", c.r.ID)
		}
		s = s.Explained()
		behind := ""
		if s.Behind != nil {
			behind = s.Behind.ID
		}
		if s.Reason != c.reason || s.Message != c.says || behind != c.behind {
			t.Errorf("%s waits for %s behind %q: %s", c.r.ID, s.Reason, behind, s.Message)
		}
	}
	wide := budget.NewQueue([]budget.Tenant{{Name: "b", Cap: 20}}, []budget.Pool{{Name: "default", Cap: 10}}, noon, time.Minute)
	if s := wide.Next(waiting(1, "b", "x", 11, 0)).Explained(); s.Reason != budget.ExceedsPool || !strings.HasPrefix(s.Message, "this request needs 11 slots; pool default has 10 in all") {
		t.Errorf("%s: %s", s.Reason, s.Message)
	}
}

// A walk along thousands of requests makes nothing for those that nobody reads.
func TestAWalkMakesNoWords(t *testing.T) { //nolint:paralleltest // counts allocations, of which a test beside it has some
	for name, r := range map[string]budget.Request{
		"blocked by the quota": waiting(1, "a", "x", 2, 0), "blocked by the pool": waiting(1, "b", "x", 8, 0), "too large": waiting(1, "a", "x", 5, 0),
	} {
		q := budget.NewQueue([]budget.Tenant{{Name: "a", Cap: 4, Used: 3}, {Name: "b", Cap: 10}}, []budget.Pool{{Name: "default", Cap: 10, Used: 3}}, noon, time.Minute)
		if n := testing.AllocsPerRun(100, func() { q.Next(r) }); n != 0 {
			t.Errorf("%s: %v things are made for each request", name, n)
		}
	}
}
