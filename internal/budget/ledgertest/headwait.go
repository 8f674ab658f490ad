package ledgertest

import (
	"fmt"
	"testing"
	"time"

	"modeldock.io/internal/budget"
)

func runHeadWait(t *testing.T, open Opener) {
	for name, run := range map[string]func(*bundle){
		"a pool lets smaller ones pass, then keeps its slots":                  poolHead,
		"a tenant lets smaller ones pass, then keeps its slots":                tenantHead,
		"a tenant's head holds back only its own":                              tenantHeadAlone,
		"a head that its quota blocks does not hold the pool":                  quotaBlockedHead,
		"among equal priorities the largest is served while small ones stream": nothingStarves,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(setup(t, open, 10))
		})
	}
}

func poolHead(b *bundle) {
	b.quota("team-a", 100)
	b.quota("team-b", 100)
	b.submit("team-a", "first", 6, 50)
	b.admits("first")
	b.submit("team-a", "large", 8, 50)
	b.submit("team-b", "passes", 1, 50)
	b.admits("passes")
	b.reason("team-a", "large", budget.PoolBlocked)
	b.clock.Advance(budget.DefaultHeadWait - time.Microsecond)
	b.submit("team-b", "still-passes", 1, 50)
	b.admits("still-passes")
	b.clock.Advance(time.Microsecond)
	b.submit("team-b", "held", 1, 50)
	b.submit("team-b", "more-important", 1, 60)
	b.admits("more-important")
	s := b.reason("team-b", "held", budget.QueuedBehind)
	if s.Behind == nil || *s.Behind != (budget.Ref{Tenant: "team-a", ID: "large"}) {
		b.Fatalf("held is behind %v, want team-a/large", s.Behind)
	}
	b.credit(budget.Ref{Tenant: "team-a", ID: "first"})
	b.admits() // 7 are free, 8 are needed: kept
	b.credit(budget.Ref{Tenant: "team-b", ID: "passes"})
	b.admits("large")
	b.reason("team-b", "held", budget.PoolBlocked)
}

func tenantHead(b *bundle) {
	b.quota("team-a", 4)
	b.submit("team-a", "first", 3, 50)
	b.admits("first")
	b.submit("team-a", "large", 4, 50)
	b.submit("team-a", "passes", 1, 50)
	b.admits("passes")
	b.credit(budget.Ref{Tenant: "team-a", ID: "passes"})
	b.clock.Advance(budget.DefaultHeadWait)
	b.submit("team-a", "held", 1, 50)
	b.admits()
	s := b.reason("team-a", "held", budget.QueuedBehind)
	if s.Behind == nil || s.Behind.ID != "large" {
		b.Fatalf("held is behind %v, want large", s.Behind)
	}
	b.submit("team-a", "more-important", 1, 60)
	b.admits("more-important")
	b.credit(budget.Ref{Tenant: "team-a", ID: "first"})
	b.credit(budget.Ref{Tenant: "team-a", ID: "more-important"})
	b.admits("large")
}

func tenantHeadAlone(b *bundle) {
	b.quota("team-a", 4)
	b.quota("team-b", 4)
	b.submit("team-a", "first", 3, 50)
	b.admits("first")
	b.submit("team-a", "large", 4, 90)
	b.submit("team-a", "too-dear", 5, 95)
	b.clock.Advance(2 * budget.DefaultHeadWait)
	b.submit("team-b", "other", 4, 1)
	b.admits("other")
}

func quotaBlockedHead(b *bundle) {
	b.quota("team-a", 8)
	b.quota("team-b", 8)
	b.submit("team-a", "first", 5, 50)
	b.admits("first")
	b.submit("team-a", "blocked", 8, 90) // quota: 5 of 8; pool: 5 of 10
	b.clock.Advance(2 * budget.DefaultHeadWait)
	b.submit("team-b", "fits", 5, 1)
	b.admits("fits")
	b.reason("team-a", "blocked", budget.QuotaBlocked)
}

// nothingStarves streams small requests past a large one of equal priority:
// with the head wait bounded, the large one must get in.
func nothingStarves(b *bundle) {
	b.quota("team-a", 10)
	b.quota("team-b", 10)
	for i := range 10 {
		b.submit("team-b", fmt.Sprint("small", i), 1, 50)
	}
	b.admit()
	b.submit("team-a", "large", 10, 50)
	for i := range 200 {
		if b.get("team-a", "large").State == budget.Reserved {
			return
		}
		b.clock.Advance(5 * time.Second)
		b.submit("team-b", fmt.Sprint("small", 10+i), 1, 50)
		if i < 10 || b.get("team-b", fmt.Sprint("small", i)).State == budget.Reserved {
			b.credit(budget.Ref{Tenant: "team-b", ID: fmt.Sprint("small", i)})
		}
		b.admit()
	}
	b.Fatal("the large request was never admitted")
}
