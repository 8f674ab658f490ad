package ledgertest

import (
	"sync"
	"testing"
	"time"

	"modeldock.io/internal/budget"
)

func runRelease(t *testing.T, open Opener) {
	for name, run := range map[string]func(*bundle){
		"a waiting request ends at once":                       cancelled,
		"a reserved one writes its delete and keeps its slots": asked,
		"credit needs every condition":                         conditions,
		"force needs only the wish":                            forced,
		"thirty releases at once credit once":                  thirtyReleases,
		"nobody else's":                                        notFound,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, open, 10)
			b.quota("team-a", 10)
			run(b)
		})
	}
}

func cancelled(b *bundle) {
	r := b.submit("team-a", "x", 1, 50)
	for range 2 {
		got, err := b.RequestRelease(b.ctx, r.Ref)
		b.ok(err)
		equal(b, "state", got.State, budget.Released)
		equal(b, "revision", got.Revision, r.Revision+1)
	}
	b.admits()
	rows, err := b.Intents(b.ctx, r.Ref)
	b.ok(err)
	equal(b, "outbox rows", len(rows), 0)
	got, err := b.Credit(b.ctx, r.Ref, false)
	b.ok(err)
	equal(b, "revision", got.Revision, r.Revision+1)
}

func asked(b *bundle) {
	r := b.reserved("x", 2)
	b.clock.Advance(time.Second)
	first, err := b.RequestRelease(b.ctx, r.Ref)
	b.ok(err)
	equal(b, "state", first.State, budget.Reserved)
	equal(b, "held", first.Held, 2)
	equal(b, "asked at", first.ReleaseRequestedAt, b.clock.Now())
	b.clock.Advance(time.Second)
	second, err := b.RequestRelease(b.ctx, r.Ref)
	b.ok(err)
	equal(b, "asked at", second.ReleaseRequestedAt, first.ReleaseRequestedAt)
	equal(b, "revision", second.Revision, first.Revision)
	rows, err := b.Intents(b.ctx, r.Ref)
	b.ok(err)
	equal(b, "outbox rows", len(rows), 2)
	equal(b, "op", rows[1].Op, budget.Delete)
	b.used("team-a", 2, "default", 2)
}

func conditions(b *bundle) {
	r := b.reserved("x", 2)
	refused := func(why string) {
		b.Helper()
		_, err := b.Credit(b.ctx, r.Ref, false)
		if err == nil {
			b.Fatalf("credited although %s", why)
		}
		b.is(err, budget.ErrNotReleasable)
		b.used("team-a", 2, "default", 2)
	}
	apply := b.claimOne("relay-1")
	refused("nobody asked")
	_, err := b.RequestRelease(b.ctx, r.Ref)
	b.ok(err)
	refused("an apply is leased and the delete is undelivered")
	equal(b, "claimed beside a leased apply", len(b.claim("relay-2")), 0)
	b.clock.Advance(2 * time.Minute) // relay-1 is gone
	del := b.claimOne("relay-2")
	equal(b, "op", del.Op, budget.Delete)
	refused("the delete is undelivered")
	b.ok(b.DeleteDelivered(b.ctx, del))
	b.is(b.Delivered(b.ctx, apply, object("late")), budget.ErrReleaseRequested)
	got, err := b.Credit(b.ctx, r.Ref, false)
	b.ok(err)
	equal(b, "state", got.State, budget.Released)
	equal(b, "held", got.Held, 0)
	b.used("team-a", 0, "default", 0)
	journal, err := b.Journal(b.ctx, r.Ref)
	b.ok(err)
	equal(b, "journal entries", len(journal), 2)
	equal(b, "credit", journal[1].Slots, -2)
	equal(b, "op", journal[1].Op, budget.OpRelease)
	again, err := b.Credit(b.ctx, r.Ref, false)
	b.ok(err)
	equal(b, "revision", again.Revision, got.Revision)
}

func forced(b *bundle) {
	r := b.reserved("x", 2)
	_, err := b.Credit(b.ctx, r.Ref, true)
	b.is(err, budget.ErrNotReleasable)
	apply := b.claimOne("relay-1")
	_, err = b.RequestRelease(b.ctx, r.Ref)
	b.ok(err)
	_, err = b.Credit(b.ctx, r.Ref, true)
	b.ok(err)
	b.used("team-a", 0, "default", 0)
	// The relay that was creating the object is told to delete it.
	b.is(b.Delivered(b.ctx, apply, object("late")), budget.ErrReleaseRequested)
	_, err = b.Binding(b.ctx, r.Ref)
	b.is(err, budget.ErrNotFound)
	equal(b, "op still to be delivered", b.claimOne("relay-2").Op, budget.Delete)
}

func thirtyReleases(b *bundle) {
	r := b.reserved("x", 7)
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			if _, err := b.RequestRelease(b.ctx, r.Ref); err != nil {
				b.Errorf("release: %v", err)
			}
			if got, err := b.Claim(b.ctx, "relay", 10, time.Minute); err != nil {
				b.Errorf("claim: %v", err)
			} else {
				for _, in := range got {
					if err := b.DeleteDelivered(b.ctx, in); err != nil {
						b.Errorf("delete: %v", err)
					}
				}
			}
			// Whether this one credits depends on who was first; never twice.
			_, _ = b.Credit(b.ctx, r.Ref, i%2 == 0)
		})
	}
	all.Wait()
	b.state("x", budget.Released)
	b.used("team-a", 0, "default", 0)
	journal, err := b.Journal(b.ctx, r.Ref)
	b.ok(err)
	equal(b, "journal entries", len(journal), 2)
}

func notFound(b *bundle) {
	r := b.reserved("x", 1)
	foreign := budget.Ref{Tenant: "team-b", ID: r.ID}
	_, err := b.RequestRelease(b.ctx, foreign)
	b.is(err, budget.ErrNotFound)
	_, err = b.Credit(b.ctx, foreign, true)
	b.is(err, budget.ErrNotFound)
	b.is(b.SetNode(b.ctx, foreign, "node-1"), budget.ErrNotFound)
	b.ok(b.SetNode(b.ctx, r.Ref, "node-1"))
	b.ok(b.SetNode(b.ctx, r.Ref, "node-2"))
	equal(b, "node", b.get("team-a", "x").Node, "node-1")
	equal(b, "revision", b.get("team-a", "x").Revision, r.Revision)
}
