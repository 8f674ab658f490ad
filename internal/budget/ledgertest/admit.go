package ledgertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/modelspec"
)

func runAdmit(t *testing.T, open Opener) {
	for name, run := range map[string]func(*bundle){
		"higher priority first, then arrival":           order,
		"at most the limit":                             limit,
		"slots are taken, journalled and intended once": taken,
		"replicas.min multiplies, and 0 pays for one":   replicas,
		"an impossible request holds back nobody":       impossible,
		"a full tenant holds back nobody":               fullTenant,
		"every cause wakes the queue":                   wakes,
		"a cap below what is held lets nothing in":      loweredCap,
		"pools are apart, tenants' quotas span them":    pools,
		"a long queue of one tenant is read to its end": longQueue,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(setup(t, open, 10))
		})
	}
}

func (b *bundle) admits(want ...string) {
	b.Helper()
	if got := b.admit(); !slices.Equal(got, want) {
		b.Fatalf("admitted %v, want %v", got, want)
	}
}

func order(b *bundle) {
	b.quota("team-a", 10)
	b.quota("team-b", 10)
	b.submit("team-a", "low", 1, 10)
	b.submit("team-b", "mid-1", 1, 50)
	b.submit("team-a", "mid-2", 1, 50)
	b.submit("team-b", "high", 1, 90)
	b.admits("high", "mid-1", "mid-2", "low")
}

func limit(b *bundle) {
	b.quota("team-a", 10)
	for i := range 5 {
		b.submit("team-a", fmt.Sprint("r", i), 1, 50)
	}
	for _, want := range []int{2, 2, 1, 0} {
		got, err := b.Admit(b.ctx, 2)
		b.ok(err)
		equal(b, "admitted", len(got), want)
	}
}

func taken(b *bundle) {
	b.quota("team-a", 10)
	waiting := b.submit("team-a", "x", 3, 50)
	b.clock.Advance(time.Second)
	b.admits("x")
	r := b.get("team-a", "x")
	equal(b, "held", r.Held, 3)
	equal(b, "revision", r.Revision, waiting.Revision+1)
	equal(b, "reserved at", r.ReservedAt, b.clock.Now())
	b.used("team-a", 3, "default", 3)
	journal, err := b.Journal(b.ctx, r.Ref)
	b.ok(err)
	equal(b, "journal entries", len(journal), 1)
	equal(b, "op", journal[0].Op, budget.OpReserve)
	equal(b, "slots", journal[0].Slots, 3)
	equal(b, "journalled revision", journal[0].Revision, r.Revision)
	rows, err := b.Intents(b.ctx, r.Ref)
	b.ok(err)
	equal(b, "outbox rows", len(rows), 1)
	equal(b, "op", rows[0].Op, budget.Apply)
	equal(b, "funded", rows[0].Funded, 1)
	equal(b, "model", rows[0].Model.Name, "x")
	_, seq, err := b.Identity(b.ctx)
	b.ok(err)
	equal(b, "highest journal seq", seq, journal[0].Seq)
	b.admits()
}

func replicas(b *bundle) {
	b.quota("team-a", 10)
	s := submission("team-a", "three", 2, 50)
	s.Model.Replicas = modelspec.Replicas{Min: 3, Max: 4}
	_, err := b.Submit(b.ctx, s)
	b.ok(err)
	z := submission("team-a", "sleepy", 2, 40)
	z.Model.Replicas = modelspec.Replicas{Min: 0, Max: 1}
	_, err = b.Submit(b.ctx, z)
	b.ok(err)
	b.admits("three", "sleepy")
	equal(b, "held", b.get("team-a", "three").Held, 6)
	equal(b, "funded", b.get("team-a", "three").Funded, 3)
	equal(b, "held", b.get("team-a", "sleepy").Held, 2)
	b.used("team-a", 8, "default", 8)
}

func impossible(b *bundle) {
	b.quota("team-a", 100)
	b.quota("team-b", 4)
	b.submit("team-a", "too-large", 11, 90)
	b.submit("team-b", "too-dear", 5, 80)
	b.submit("team-a", "small", 1, 1)
	b.submit("team-b", "cheap", 4, 1)
	b.clock.Advance(2 * budget.DefaultHeadWait)
	b.admits("small", "cheap")
	b.reason("team-a", "too-large", budget.ExceedsPool)
	b.reason("team-b", "too-dear", budget.ExceedsQuota)
}

func fullTenant(b *bundle) {
	b.quota("team-a", 2)
	b.quota("team-b", 2)
	for i := range 3 {
		b.submit("team-a", fmt.Sprint("a", i), 1, 90)
	}
	b.submit("team-b", "b0", 1, 1)
	b.admits("a0", "a1", "b0")
	b.clock.Advance(2 * budget.DefaultHeadWait)
	b.submit("team-b", "b1", 1, 1)
	b.admits("b1")
	s := b.reason("team-a", "a2", budget.QuotaBlocked)
	equal(b, "message", s.Message[:0], "")
	if !strings.Contains(s.Message, "team-a holds 2 of 2 slots") || !strings.Contains(s.Message, "needs 1") {
		b.Fatalf("the message lacks its figures: %s", s.Message)
	}
}

func wakes(b *bundle) {
	b.quota("team-a", 1)
	b.pool("default", 1)
	b.submit("team-a", "one", 1, 50)
	b.submit("team-a", "two", 1, 50)
	b.submit("team-a", "three", 1, 50)
	b.admits("one")
	b.admits()
	b.credit(budget.Ref{Tenant: "team-a", ID: "one"})
	b.admits("two")
	b.quota("team-a", 2)
	b.reason("team-a", "three", budget.PoolBlocked)
	b.admits()
	b.pool("default", 2)
	b.reason("team-a", "three", budget.AwaitingAdmission)
	b.admits("three")
}

func loweredCap(b *bundle) {
	b.quota("team-a", 5)
	b.submit("team-a", "one", 3, 50)
	b.admits("one")
	b.quota("team-a", 1)
	b.submit("team-a", "two", 1, 50)
	b.admits()
	s := b.reason("team-a", "two", budget.QuotaBlocked)
	equal(b, "used", s.TenantUsed, 3)
	equal(b, "cap", s.TenantCap, 1)
	b.state("one", budget.Reserved)
	b.credit(budget.Ref{Tenant: "team-a", ID: "one"})
	b.admits("two")
}

func pools(b *bundle) {
	b.pool("other", 2)
	b.quota("team-a", 3)
	for i, pool := range []string{"default", "other", "other", "other"} {
		s := submission("team-a", fmt.Sprint("r", i), 1, 50)
		s.Pool = pool
		_, err := b.Submit(b.ctx, s)
		b.ok(err)
	}
	b.admits("r0", "r1", "r2")
	b.used("team-a", 3, "other", 2)
	b.used("team-a", 3, "default", 1)
	b.reason("team-a", "r3", budget.QuotaBlocked)
}

// longQueue has many requests that cannot be taken before the one that can:
// those that no slot of their tenant or of any pool is for, which a ledger may
// leave out, and those whose pool alone is full, so that one that reads its
// queue in pages must not stop at the first.
func longQueue(b *bundle) {
	b.quota("team-a", 5)
	b.pool("other", 1)
	for i := range 70 {
		b.submit("team-a", fmt.Sprint("large", i), 6, 50+i%3)
	}
	for i := range 150 {
		s := submission("team-a", fmt.Sprint("elsewhere", i), 2, 50+i%3)
		s.Pool = "other"
		_, err := b.Submit(b.ctx, s)
		b.ok(err)
	}
	b.submit("team-a", "small", 5, 1)
	b.submit("team-a", "second", 1, 1)
	b.admits("small")
	b.reason("team-a", "second", budget.QuotaBlocked)
}
