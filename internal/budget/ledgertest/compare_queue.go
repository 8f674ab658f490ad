package ledgertest

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"modeldock.io/internal/budget"
)

// CompareQueue puts random queues of few tenants, tight caps and mixed ages
// before a ledger and the oracle: who is admitted, and why each other waits,
// must be the same through several rounds of changing caps and passing time.
func CompareQueue(t *testing.T, open, oracle Opener) {
	rapid.Check(t, func(rt *rapid.T) {
		p := newPair(t, rt, open, oracle)
		defer p.close()
		for i := range 3 {
			p.tenantCap(rt, i)
		}
		p.poolCap(rt, "default")
		p.poolCap(rt, "other")
		for i := range rapid.IntRange(4, 10).Draw(rt, "queue") {
			p.enqueue(rt, i)
		}
		p.compareRows(rt)
		for range 2 {
			p.admit(rt)
			p.compareRows(rt)
			p.tenantCap(rt, rapid.IntRange(0, 2).Draw(rt, "whose"))
			p.poolCap(rt, "default")
			p.clock.Advance(rapid.SampledFrom([]time.Duration{0, time.Second, budget.DefaultHeadWait}).Draw(rt, "round"))
		}
	})
}

func (p *pair) tenantCap(t *rapid.T, i int) {
	limit := rapid.Int64Range(2, 9).Draw(t, "cap")
	p.both(t, "quota", func(l budget.Ledger) (any, error) { return l.SetQuota(p.t.Context(), tenantName(i), limit) })
}

func (p *pair) poolCap(t *rapid.T, name string) {
	limit := rapid.Int64Range(3, 9).Draw(t, "pool cap")
	p.both(t, "pool", func(l budget.Ledger) (any, error) { return l.SetPool(p.t.Context(), name, limit) })
}

func (p *pair) enqueue(t *rapid.T, i int) {
	s := submission(tenantName(rapid.IntRange(0, 2).Draw(t, "tenant")), fmt.Sprint("q", i),
		rapid.SampledFrom([]int64{1, 1, 2, 3, 5, 7}).Draw(t, "cost"), rapid.IntRange(0, 2).Draw(t, "priority"))
	s.Pool = rapid.SampledFrom([]string{"default", "default", "other"}).Draw(t, "pool")
	s.TTL = rapid.SampledFrom([]time.Duration{90 * time.Second, time.Hour, time.Hour}).Draw(t, "ttl")
	p.both(t, "submit", func(l budget.Ledger) (any, error) { return l.Submit(p.t.Context(), s) })
	p.clock.Advance(rapid.SampledFrom([]time.Duration{0, time.Second, budget.DefaultHeadWait - time.Second, budget.DefaultHeadWait}).Draw(t, "pause"))
}
