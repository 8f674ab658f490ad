package ledgertest

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/modelspec"
)

// CompareGrowth lets few reserved requests grow, shrink and be patched in
// random order beside a queue that waits for the same slots, with every
// intent delivered soon: the long sequences of Compare seldom get that far.
func CompareGrowth(t *testing.T, open, oracle Opener) {
	rapid.Check(t, func(rt *rapid.T) {
		p := newPair(t, rt, open, oracle)
		defer p.close()
		for i := range 3 {
			p.tenantCap(rt, i)
		}
		p.poolCap(rt, "default")
		for i := range rapid.IntRange(2, 6).Draw(rt, "queue") {
			p.enqueue(rt, i)
		}
		p.admit(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"patch": p.patch, "grow": p.grow, "shrink": p.shrink, "credit shrink": p.creditShrink, "deliver": p.deliverAll,
			"deliver again": p.deliverAll, "admit": p.admit, "release": p.release, "credit": p.credit, "": p.same,
		})
		p.compareRows(rt)
	})
}

// replicaCount is likely one that the request can have.
func replicaCount(t *rapid.T) int { return rapid.IntRange(0, 4).Draw(t, "replicas") }

func (p *pair) grow(t *rapid.T) {
	ref, n := p.ref(t), replicaCount(t)
	p.both(t, "grow", func(l budget.Ledger) (any, error) { return l.Grow(p.t.Context(), ref, n) })
}

func (p *pair) shrink(t *rapid.T) {
	ref, n := p.ref(t), replicaCount(t)
	p.both(t, "shrink", func(l budget.Ledger) (any, error) { return l.Shrink(p.t.Context(), ref, n) })
}

// generation is mostly the present one, sometimes an older or a later one.
func (p *pair) generation(t *rapid.T, ref budget.Ref) int64 {
	r, err := p.want.Get(p.t.Context(), ref)
	if err != nil {
		return 1
	}
	return r.Generation + rapid.SampledFrom([]int64{0, 0, 0, 0, -1, 1}).Draw(t, "generation")
}

func (p *pair) creditShrink(t *rapid.T) {
	ref := p.ref(t)
	generation := p.generation(t, ref)
	p.both(t, "credit shrink", func(l budget.Ledger) (any, error) { return l.CreditShrink(p.t.Context(), ref, generation) })
}

func (p *pair) patch(t *rapid.T) {
	ref := p.ref(t)
	change := budget.Patch{Generation: p.generation(t, ref)}
	if rapid.IntRange(0, 3).Draw(t, "replicas too") > 0 {
		least := replicaCount(t)
		change.Replicas = &modelspec.Replicas{Min: least, Max: least + rapid.IntRange(-1, 2).Draw(t, "above")}
	}
	if rapid.Bool().Draw(t, "traffic too") {
		change.Traffic = &modelspec.Traffic{Weight: rapid.SampledFrom([]int{100, 100, 0, 1001}).Draw(t, "weight")}
	}
	p.both(t, "patch", func(l budget.Ledger) (any, error) { return l.Patch(p.t.Context(), ref, change) })
}

// deliverAll carries out whatever is due.
func (p *pair) deliverAll(t *rapid.T) {
	claimed := p.both(t, "claim", func(l budget.Ledger) (any, error) { return l.Claim(p.t.Context(), "relay", 0, time.Minute) })
	for _, in := range claimed.([]budget.Intent) {
		p.both(t, "report", func(l budget.Ledger) (any, error) {
			if in.Op == budget.Delete {
				return nil, l.DeleteDelivered(p.t.Context(), in)
			}
			return nil, l.Delivered(p.t.Context(), in, object(in.Tenant+in.ID))
		})
	}
}
