package ledgertest

import (
	"errors"
	"testing"
	"time"

	"modeldock.io/internal/budget"
)

func runBinding(t *testing.T, open Opener) {
	t.Run("one object per reservation, one reservation per object", func(t *testing.T) {
		t.Parallel()
		b := setup(t, open, 100)
		b.quota("team-a", 100)
		b.submit("team-a", "x", 1, 50)
		b.submit("team-a", "y", 1, 50)
		b.admit()
		claimed := b.claim("relay")
		b.ok(b.Delivered(b.ctx, claimed[0], object("u1")))
		b.ok(b.Delivered(b.ctx, claimed[0], object("u1")))
		elsewhere := func(in budget.Intent, obj budget.Object, holder string) {
			b.Helper()
			var bound *budget.BoundElsewhereError
			if err := b.Delivered(b.ctx, in, obj); !errors.As(err, &bound) || bound.Ref.ID != holder {
				b.Fatalf("got %v, want bound to %s", err, holder)
			}
		}
		elsewhere(claimed[1], object("u1"), "x")
		elsewhere(claimed[1], budget.Object{Namespace: "models", Name: "md-u1", UID: "u2"}, "x")
		b.ok(b.Delivered(b.ctx, claimed[1], object("u2")))
		got, err := b.Binding(b.ctx, budget.Ref{Tenant: "team-a", ID: "x"})
		b.ok(err)
		equal(b, "object", got.Object, object("u1"))
		equal(b, "bound at", got.BoundAt, b.clock.Now())
	})
	t.Run("readiness and end of the bound UID only", func(t *testing.T) {
		t.Parallel()
		b := setup(t, open, 100)
		b.quota("team-a", 100)
		r := b.reserved("x", 1)
		_, err := b.Binding(b.ctx, r.Ref)
		b.is(err, budget.ErrNotFound)
		b.ok(b.MarkReady(b.ctx, r.Ref, "u1"))
		b.ok(b.Delivered(b.ctx, b.claimOne("relay"), object("u1")))
		b.ok(b.MarkReady(b.ctx, r.Ref, "other"))
		b.ok(b.MarkGone(b.ctx, r.Ref, "other"))
		got, err := b.Binding(b.ctx, r.Ref)
		b.ok(err)
		equal(b, "ever ready", got.EverReady, false)
		equal(b, "gone", got.GoneAt.IsZero(), true)
		b.clock.Advance(time.Second)
		ready := b.clock.Now()
		b.ok(b.MarkReady(b.ctx, r.Ref, "u1"))
		b.clock.Advance(time.Second)
		b.ok(b.MarkReady(b.ctx, r.Ref, "u1"))
		b.ok(b.MarkGone(b.ctx, r.Ref, "u1"))
		b.clock.Advance(time.Second)
		b.ok(b.MarkGone(b.ctx, r.Ref, "u1"))
		got, err = b.Binding(b.ctx, r.Ref)
		b.ok(err)
		equal(b, "ever ready", got.EverReady, true)
		equal(b, "first ready at", got.FirstReadyAt, ready)
		equal(b, "gone at", got.GoneAt, ready.Add(time.Second))
	})
	t.Run("all of those that hold slots at once", func(t *testing.T) {
		t.Parallel()
		b := setup(t, open, 100)
		b.quota("team-a", 100)
		live := func(want ...string) {
			b.Helper()
			got, err := b.LiveBindings(b.ctx)
			b.ok(err)
			equal(b, "live bindings", len(got), len(want))
			for _, id := range want {
				ref := budget.Ref{Tenant: "team-a", ID: id}
				one, err := b.Binding(b.ctx, ref)
				b.ok(err)
				equal(b, "live binding of "+id, got[ref], one)
			}
		}
		live()
		for _, id := range []string{"x", "y", "undelivered"} {
			b.submit("team-a", id, 1, 50)
		}
		b.admit()
		b.submit("team-a", "waiting", 1, 50)
		claimed := b.claim("relay")
		b.ok(b.Delivered(b.ctx, claimed[0], object("u1")))
		live("x")
		b.ok(b.Delivered(b.ctx, claimed[1], object("u2")))
		b.ok(b.MarkReady(b.ctx, claimed[1].Ref, "u2"))
		live("x", "y")
		// Until its credit a release holds its slots.
		_, err := b.RequestRelease(b.ctx, claimed[0].Ref)
		b.ok(err)
		live("x", "y")
		_, err = b.Credit(b.ctx, claimed[0].Ref, true)
		b.ok(err)
		live("y")
	})
}
