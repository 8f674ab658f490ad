package ledgertest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"modeldock.io/internal/budget"
)

func runOutbox(t *testing.T, open Opener) {
	for name, run := range map[string]func(*bundle){
		"a row is leased to one owner until the lease ends":   leases,
		"at most n rows, the longest due first":               claimsAtMost,
		"a deferred row waits and delays nobody":              defers,
		"a delete supersedes an apply that nobody works on":   supersedes,
		"a delete waits for a leased apply":                   waitsForLeased,
		"an apply is not handed out once a release was asked": notAfterRelease,
		"binding after a release is refused":                  lateBinding,
		"only the holder reports":                             holderReports,
		"two relays share the work":                           twoRelays,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, open, 100)
			b.quota("team-a", 100)
			run(b)
		})
	}
}

func leases(b *bundle) {
	b.reserved("x", 1)
	in := b.claimOne("relay-1")
	equal(b, "owner", in.LeaseOwner, "relay-1")
	equal(b, "lease until", in.LeaseUntil, b.clock.Now().Add(time.Minute))
	equal(b, "attempts", in.Attempts, 1)
	equal(b, "claimed by another", len(b.claim("relay-2")), 0)
	b.clock.Advance(time.Minute - time.Microsecond)
	equal(b, "claimed before the lease ended", len(b.claim("relay-2")), 0)
	b.clock.Advance(time.Microsecond)
	again := b.claimOne("relay-2")
	equal(b, "attempts", again.Attempts, 2)
	b.is(b.Delivered(b.ctx, in, object("u1")), budget.ErrLeaseLost)
	b.ok(b.Delivered(b.ctx, again, object("u1")))
	equal(b, "claimed after delivery", len(b.claim("relay-3")), 0)
	rows, err := b.Intents(b.ctx, in.Ref)
	b.ok(err)
	equal(b, "delivered at", rows[0].DeliveredAt, b.clock.Now())
	equal(b, "owner", rows[0].LeaseOwner, "")
}

func claimsAtMost(b *bundle) {
	for i := range 5 {
		b.submit("team-a", fmt.Sprint("r", i), 1, 50)
	}
	b.admit()
	first, err := b.Claim(b.ctx, "relay", 1, time.Minute)
	b.ok(err)
	equal(b, "first", first[0].ID, "r0")
	b.ok(b.Defer(b.ctx, first[0], "away", time.Second))
	b.clock.Advance(2 * time.Second)
	got, err := b.Claim(b.ctx, "relay", 3, time.Minute)
	b.ok(err)
	equal(b, "claimed", len(got), 3)
	equal(b, "first", got[0].ID, "r1") // longer due than the deferred one
	rest, err := b.Claim(b.ctx, "relay", 0, time.Minute)
	b.ok(err)
	equal(b, "rest", len(rest), 2)
	equal(b, "last", rest[1].ID, "r0")
}

func defers(b *bundle) {
	b.submit("team-a", "poison", 1, 90)
	b.submit("team-a", "good", 1, 50)
	b.admit()
	for _, in := range b.claim("relay") {
		if in.ID == "poison" {
			b.ok(b.Defer(b.ctx, in, "NameTaken: an object of this name exists", 5*time.Second))
			b.is(b.Defer(b.ctx, in, "again", time.Second), budget.ErrLeaseLost)
		} else {
			b.ok(b.Delivered(b.ctx, in, object("good")))
			b.is(b.Defer(b.ctx, in, "too late", time.Second), budget.ErrLeaseLost)
		}
	}
	rows, err := b.Intents(b.ctx, budget.Ref{Tenant: "team-a", ID: "poison"})
	b.ok(err)
	equal(b, "last error", rows[0].LastError, "NameTaken: an object of this name exists")
	equal(b, "claimed while it waits", len(b.claim("relay")), 0)
	b.clock.Advance(5 * time.Second)
	in := b.claimOne("relay")
	equal(b, "id", in.ID, "poison")
	equal(b, "attempts", in.Attempts, 2)
	b.ok(b.Delivered(b.ctx, in, object("poison")))
	rows, err = b.Intents(b.ctx, in.Ref)
	b.ok(err)
	equal(b, "last error", rows[0].LastError, "")
}

func supersedes(b *bundle) {
	r := b.reserved("x", 1)
	_, err := b.RequestRelease(b.ctx, r.Ref)
	b.ok(err)
	del := b.claimOne("relay")
	equal(b, "op", del.Op, budget.Delete)
	rows, err := b.Intents(b.ctx, r.Ref)
	b.ok(err)
	equal(b, "note on the apply", rows[0].LastError, budget.Superseded)
	equal(b, "delivered at", rows[0].DeliveredAt, b.clock.Now())
	b.ok(b.DeleteDelivered(b.ctx, del))
	b.ok(b.DeleteDelivered(b.ctx, del))
	equal(b, "claimed afterwards", len(b.claim("relay")), 0)
	_, err = b.Credit(b.ctx, r.Ref, false)
	b.ok(err)
}

func waitsForLeased(b *bundle) {
	r := b.reserved("x", 1)
	apply := b.claimOne("relay-1")
	_, err := b.RequestRelease(b.ctx, r.Ref)
	b.ok(err)
	equal(b, "claimed beside a leased apply", len(b.claim("relay-2")), 0)
	b.is(b.Delivered(b.ctx, apply, object("u1")), budget.ErrReleaseRequested)
	rows, err := b.Intents(b.ctx, r.Ref)
	b.ok(err)
	equal(b, "note on the apply", rows[0].LastError, budget.Superseded)
	equal(b, "op", b.claimOne("relay-2").Op, budget.Delete)
}

func notAfterRelease(b *bundle) {
	r := b.reserved("x", 1)
	apply := b.claimOne("relay-1")
	_, err := b.RequestRelease(b.ctx, r.Ref)
	b.ok(err)
	b.ok(b.Defer(b.ctx, apply, "the target is away", time.Second))
	del := b.claimOne("relay-2")
	equal(b, "op", del.Op, budget.Delete)
	b.ok(b.Defer(b.ctx, del, "the target is away", time.Hour))
	b.clock.Advance(time.Minute)
	equal(b, "claimed while the delete is deferred", len(b.claim("relay-2")), 0)
	b.clock.Advance(time.Hour)
	equal(b, "op", b.claimOne("relay-2").Op, budget.Delete)
}

func lateBinding(b *bundle) {
	r := b.reserved("x", 1)
	apply := b.claimOne("relay-1")
	_, err := b.RequestRelease(b.ctx, r.Ref)
	b.ok(err)
	for range 2 {
		b.is(b.Delivered(b.ctx, apply, object("u1")), budget.ErrReleaseRequested)
	}
	_, err = b.Binding(b.ctx, r.Ref)
	b.is(err, budget.ErrNotFound)

	// Bound first, released afterwards: repeating the report still succeeds.
	s := b.reserved("y", 1)
	apply = b.claimRef("relay-1", s.Ref)
	b.ok(b.Delivered(b.ctx, apply, object("u2")))
	_, err = b.RequestRelease(b.ctx, s.Ref)
	b.ok(err)
	b.ok(b.Delivered(b.ctx, apply, object("u2")))
	b.is(b.Delivered(b.ctx, apply, object("u3")), budget.ErrReleaseRequested)
}

// claimRef leases everything due and returns the row of ref.
func (b *bundle) claimRef(owner string, ref budget.Ref) budget.Intent {
	b.Helper()
	for _, in := range b.claim(owner) {
		if in.Ref == ref {
			return in
		}
	}
	b.Fatalf("nothing of %s/%s is due", ref.Tenant, ref.ID)
	return budget.Intent{}
}

func holderReports(b *bundle) {
	r := b.reserved("x", 1)
	apply := b.claimOne("relay-1")
	stranger := apply
	stranger.LeaseOwner = "relay-2"
	b.is(b.Delivered(b.ctx, stranger, object("u1")), budget.ErrLeaseLost)
	b.is(b.Defer(b.ctx, stranger, "not mine", time.Second), budget.ErrLeaseLost)
	wrong := apply
	wrong.ID = "y"
	b.is(b.Delivered(b.ctx, wrong, object("u1")), budget.ErrNotFound)
	b.is(b.DeleteDelivered(b.ctx, apply), budget.ErrNotFound)
	_, err := b.RequestRelease(b.ctx, r.Ref)
	b.ok(err)
	// A stranger is told of the release, but the holder's lease stays.
	b.is(b.Delivered(b.ctx, stranger, object("u1")), budget.ErrReleaseRequested)
	_, err = b.Credit(b.ctx, r.Ref, false)
	b.is(err, budget.ErrNotReleasable)
	b.is(b.Delivered(b.ctx, apply, object("u1")), budget.ErrReleaseRequested)
	del := b.claimOne("relay-1")
	other := del
	other.LeaseOwner = "relay-2"
	b.is(b.DeleteDelivered(b.ctx, other), budget.ErrLeaseLost)
}

func twoRelays(b *bundle) {
	for i := range 20 {
		b.submit("team-a", fmt.Sprint("r", i), 1, 50)
	}
	b.admit()
	type share struct {
		rows []budget.Intent
		err  error
	}
	shares := make(chan share, 2)
	for _, owner := range []string{"relay-1", "relay-2"} {
		go func() {
			var s share
			for len(s.rows) < 40 {
				got, err := b.Claim(b.ctx, owner, 3, time.Minute)
				s.rows, s.err = append(s.rows, got...), errors.Join(s.err, err)
				if len(got) == 0 || err != nil {
					break
				}
			}
			shares <- s
		}()
	}
	seen := map[int64]bool{}
	for range 2 {
		s := <-shares
		b.ok(s.err)
		for _, in := range s.rows {
			if seen[in.Seq] {
				b.Fatalf("row %d was handed to both", in.Seq)
			}
			seen[in.Seq] = true
		}
	}
	equal(b, "rows handed out", len(seen), 20)
}
