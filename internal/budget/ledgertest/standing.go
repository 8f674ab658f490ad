package ledgertest

import (
	"testing"
	"time"

	"modeldock.io/internal/budget"
)

func runStanding(t *testing.T, open Opener) {
	t.Run("only a waiting request stands in the queue", func(t *testing.T) {
		t.Parallel()
		b := setup(t, open, 10)
		b.quota("team-a", 1)
		b.reserved("one", 1)
		_, err := b.Standing(b.ctx, budget.Ref{Tenant: "team-a", ID: "one"})
		b.is(err, budget.ErrFinal)
		_, err = b.Standing(b.ctx, budget.Ref{Tenant: "team-b", ID: "one"})
		b.is(err, budget.ErrNotFound)
	})
	t.Run("figures and place", func(t *testing.T) {
		t.Parallel()
		b := setup(t, open, 10)
		b.quota("team-a", 3)
		b.reserved("one", 2)
		b.submit("team-b", "ahead", 1, 60)
		b.submit("team-a", "two", 2, 50)
		b.submit("team-a", "behind", 1, 50)
		s := b.reason("team-a", "two", budget.QuotaBlocked)
		s.Message = ""
		equal(b, "standing", s, budget.Standing{
			Reason: budget.QuotaBlocked, Need: 2, TenantUsed: 2, TenantCap: 3, Pool: "default", PoolUsed: 2, PoolCap: 10, Ahead: 1,
		})
		b.reason("team-a", "behind", budget.AwaitingAdmission)
		all, err := b.Standings(b.ctx, []budget.Ref{
			{Tenant: "team-a", ID: "two"}, {Tenant: "team-b", ID: "ahead"}, {Tenant: "team-a", ID: "one"}, {Tenant: "x", ID: "y"},
		})
		b.ok(err)
		equal(b, "explained", len(all), 2)
		equal(b, "reason", all[budget.Ref{Tenant: "team-b", ID: "ahead"}].Reason, budget.ExceedsQuota)
	})
	t.Run("past its time to live", func(t *testing.T) {
		t.Parallel()
		b := setup(t, open, 10)
		b.quota("team-a", 3)
		s := submission("team-a", "late", 1, 50)
		s.TTL = time.Second
		_, err := b.Submit(b.ctx, s)
		b.ok(err)
		b.reason("team-a", "late", budget.AwaitingAdmission)
		b.clock.Advance(time.Second)
		b.reason("team-a", "late", budget.TTLElapsed)
	})
}

func runExpire(t *testing.T, open Opener) {
	t.Run("at its expiry and not before", func(t *testing.T) {
		t.Parallel()
		b := setup(t, open, 10)
		b.quota("team-a", 3)
		s := submission("team-a", "late", 4, 50)
		s.TTL = 10 * time.Second
		r, err := b.Submit(b.ctx, s)
		b.ok(err)
		b.clock.Advance(10*time.Second - time.Microsecond)
		gone, err := b.Expire(b.ctx)
		b.ok(err)
		equal(b, "expired early", len(gone), 0)
		b.clock.Advance(time.Microsecond)
		b.quota("team-a", 9)
		b.admits() // too late, though it fits by now
		gone, err = b.Expire(b.ctx)
		b.ok(err)
		equal(b, "expired", len(gone), 1)
		equal(b, "revision", gone[0].Revision, r.Revision+1)
		b.state("late", budget.Expired)
		b.used("team-a", 0, "default", 0)
		again, err := b.Expire(b.ctx)
		b.ok(err)
		equal(b, "expired twice", len(again), 0)
		released, err := b.RequestRelease(b.ctx, s.Ref)
		b.ok(err)
		equal(b, "state", released.State, budget.Expired)
		_, err = b.Credit(b.ctx, s.Ref, true)
		b.is(err, budget.ErrNotReleasable)
	})
	t.Run("a reserved one does not expire", func(t *testing.T) {
		t.Parallel()
		b := setup(t, open, 10)
		b.quota("team-a", 3)
		b.reserved("kept", 1)
		b.clock.Advance(2 * budget.DefaultTTL)
		gone, err := b.Expire(b.ctx)
		b.ok(err)
		equal(b, "expired", len(gone), 0)
		b.state("kept", budget.Reserved)
	})
}
