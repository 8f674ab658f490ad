package budget_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/budget"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// waiting is a request that arrived at second seq before noon, minus age.
func waiting(seq int64, tenant, id string, need int64, age time.Duration) budget.Request {
	return budget.Request{
		Ref: budget.Ref{Tenant: tenant, ID: id}, Seq: seq, Priority: 50, Pool: "default", Need: need,
		CreatedAt: noon.Add(-age), ExpiresAt: noon.Add(time.Hour),
	}
}

func newQueue(used, limit int64) *budget.Queue {
	return budget.NewQueue(
		[]budget.Tenant{{Name: "a", Cap: 4}, {Name: "b", Cap: 10}},
		[]budget.Pool{{Name: "default", Cap: limit, Used: used}}, noon, time.Minute)
}

func TestTheOrder(t *testing.T) {
	t.Parallel()
	first, second := waiting(1, "a", "x", 1, 0), waiting(2, "a", "y", 1, 0)
	if !first.Before(second) || second.Before(first) {
		t.Fatal("arrival does not count among equal priorities")
	}
	second.Priority = 51
	if first.Before(second) || !second.Before(first) {
		t.Fatal("priority does not come first")
	}
}

func TestTheWalkStopsWhenNothingCanFollow(t *testing.T) {
	t.Parallel()
	if !newQueue(10, 10).Exhausted() || !newQueue(11, 10).Exhausted() || newQueue(9, 10).Exhausted() {
		t.Fatal("a queue is exhausted exactly when its only pool is full")
	}
	visited := 0
	queue := func(yield func(budget.Request) bool) {
		for i := range int64(1000) {
			visited++
			if !yield(waiting(i, "b", "r", 8, time.Hour)) {
				return
			}
		}
	}
	// 4 are free and 8 are needed: the first keeps the pool, and nobody behind
	// it needs to be looked at.
	if got := newQueue(6, 10).Admissible(queue, 0); len(got) != 0 || visited != 1 {
		t.Fatalf("admitted %d after looking at %d", len(got), visited)
	}
}

func TestPromisesCountWithinOneWalk(t *testing.T) {
	t.Parallel()
	queue := []budget.Request{waiting(1, "a", "one", 3, 0), waiting(2, "a", "two", 2, 0), waiting(3, "b", "three", 7, 0), waiting(4, "b", "four", 1, 0)}
	admitted := newQueue(0, 10).Admissible(slices.Values(queue), 0)
	var ids []string
	for _, r := range admitted {
		ids = append(ids, r.ID)
	}
	if !slices.Equal(ids, []string{"one", "three"}) {
		t.Fatalf("admitted %v", ids)
	}
	s, ok := newQueue(0, 10).WaitReason(slices.Values(queue), budget.Ref{Tenant: "a", ID: "two"})
	if !ok || s.Reason != budget.QuotaBlocked || s.TenantUsed != 0 || !strings.Contains(s.Message, "holds 0 of 4 slots and 3 more go to requests ahead") {
		t.Fatalf("standing is %+v", s)
	}
	if _, ok := newQueue(0, 10).WaitReason(slices.Values(queue), budget.Ref{Tenant: "a", ID: "absent"}); ok {
		t.Fatal("an absent request stands in the queue")
	}
}

func TestUnknownAccountsHaveNoSlots(t *testing.T) {
	t.Parallel()
	q := newQueue(0, 10)
	if s := q.Next(waiting(1, "stranger", "x", 1, 0)); s.Reason != budget.ExceedsQuota {
		t.Fatalf("a tenant without a row: %+v", s)
	}
	r := waiting(2, "a", "y", 1, 0)
	r.Pool = "nowhere"
	if s := q.Next(r); s.Reason != budget.ExceedsPool {
		t.Fatalf("a pool without a row: %+v", s)
	}
}

func TestCreditable(t *testing.T) {
	t.Parallel()
	r := budget.Reservation{Ref: budget.Ref{Tenant: "a", ID: "x"}, State: budget.Reserved, Held: 1, Cost: 1, ReleaseRequestedAt: noon}
	deleted := budget.Intent{Op: budget.Delete, DeliveredAt: noon}
	leased := budget.Intent{Op: budget.Apply, LeaseOwner: "relay", LeaseUntil: noon.Add(time.Second)}
	waiting, unasked := r, r
	waiting.State, unasked.ReleaseRequestedAt = budget.Waiting, time.Time{}
	for _, c := range []struct {
		what    string
		r       budget.Reservation
		intents []budget.Intent
		force   bool
		want    bool
	}{
		{"deleted", r, []budget.Intent{deleted}, false, true},
		{"not deleted", r, []budget.Intent{{Op: budget.Delete}}, false, false},
		{"no delete at all", r, nil, false, false},
		{"deleted while an apply is leased", r, []budget.Intent{leased, deleted}, false, false},
		{"the lease is over", r, []budget.Intent{{Op: budget.Apply, LeaseOwner: "relay", LeaseUntil: noon}, deleted}, false, true},
		{"forced", r, []budget.Intent{leased}, true, true},
		{"forced without the wish", unasked, nil, true, false},
		{"waiting", waiting, []budget.Intent{deleted}, true, false},
	} {
		if err := budget.Creditable(c.r, c.intents, noon, c.force); (err == nil) != c.want {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
