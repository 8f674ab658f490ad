package ledgertest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"modeldock.io/internal/budget"
)

func runRace(t *testing.T, open Opener) {
	t.Run("forty submits against ten slots", func(t *testing.T) {
		t.Parallel()
		b := setup(t, open, 30)
		b.quota("team-a", 10)
		b.quota("team-b", 10)
		b.whileSampling(func() {
			b.fortySubmits("team-a", 1)
			b.fortySubmits("team-b", 3)
		})
		b.counts("team-a", 10)
		b.counts("team-b", 3)
		b.used("team-a", 10, "default", 19)
		b.used("team-b", 9, "default", 19)
	})
	t.Run("everything at once", func(t *testing.T) {
		t.Parallel()
		b := setup(t, open, 12)
		for w := range 6 {
			b.quota(fmt.Sprint("team-", w), 3)
		}
		b.whileSampling(func() {
			var all sync.WaitGroup
			for w := range 6 {
				all.Go(func() { b.live(fmt.Sprint("team-", w)) })
			}
			all.Wait()
		})
	})
}

// whileSampling verifies all invariants again and again while work runs, not
// only when it is over.
func (b *bundle) whileSampling(work func()) {
	b.Helper()
	done := make(chan struct{})
	var sampler sync.WaitGroup
	samples := 0
	sampler.Go(func() {
		for {
			report, err := b.Verify(b.ctx)
			if err != nil {
				b.Errorf("verify: %v", err)
			}
			for _, v := range report.Violations {
				b.Errorf("during the run, %s: %s: %s", v.Invariant, v.Subject, v.Message)
			}
			samples++
			select {
			case <-done:
				return
			default:
			}
		}
	})
	work()
	close(done)
	sampler.Wait()
	b.Logf("%d samples", samples)
}

func (b *bundle) fortySubmits(tenant string, cost int64) {
	b.Helper()
	var all sync.WaitGroup
	errs := make([]error, 40)
	for i := range errs {
		all.Go(func() {
			_, err := b.Submit(b.ctx, submission(tenant, fmt.Sprint("r", i), cost, 50))
			_, admit := b.Admit(b.ctx, 0)
			errs[i] = errors.Join(err, admit)
		})
	}
	all.Wait()
	b.ok(errors.Join(errs...))
}

// counts fails unless exactly n of the tenant's forty are reserved, each with
// one outbox row.
func (b *bundle) counts(tenant string, n int) {
	b.Helper()
	reserved, err := b.List(b.ctx, budget.Filter{Tenant: tenant, State: budget.Reserved})
	b.ok(err)
	equal(b, "reserved of "+tenant, len(reserved), n)
	waiting, err := b.List(b.ctx, budget.Filter{Tenant: tenant, State: budget.Waiting})
	b.ok(err)
	equal(b, "waiting of "+tenant, len(waiting), 40-n)
	for _, r := range reserved {
		rows, err := b.Intents(b.ctx, r.Ref)
		b.ok(err)
		equal(b, "outbox rows of "+r.ID, len(rows), 1)
	}
}

// live is one tenant's life: submits, admissions, deliveries and releases.
func (b *bundle) live(tenant string) {
	for i := range 8 {
		s := submission(tenant, fmt.Sprint("r", i), 1, 50)
		if _, err := b.Submit(b.ctx, s); err != nil {
			b.Errorf("submit: %v", err)
		}
		if _, err := b.Admit(b.ctx, 0); err != nil {
			b.Errorf("admit: %v", err)
		}
		if i%2 == 0 {
			if _, err := b.RequestRelease(b.ctx, s.Ref); err != nil {
				b.Errorf("release: %v", err)
			}
		}
		claimed, err := b.Claim(b.ctx, tenant, 5, time.Minute)
		if err != nil {
			b.Errorf("claim: %v", err)
		}
		for _, in := range claimed {
			b.relay(in)
		}
		if _, err := b.Credit(b.ctx, s.Ref, false); err != nil && !errors.Is(err, budget.ErrNotReleasable) {
			b.Errorf("credit: %v", err)
		}
	}
}

// relay does what a relay does with one intent.
func (b *bundle) relay(in budget.Intent) {
	if in.Op == budget.Delete {
		if err := b.DeleteDelivered(b.ctx, in); err != nil {
			b.Errorf("delete: %v", err)
		}
		return
	}
	err := b.Delivered(b.ctx, in, object(in.Tenant+"-"+in.ID))
	if err != nil && !errors.Is(err, budget.ErrReleaseRequested) {
		b.Errorf("deliver: %v", err)
	}
}
