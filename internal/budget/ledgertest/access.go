package ledgertest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"modeldock.io/internal/budget"
)

func runAccess(t *testing.T, open Opener) {
	for name, run := range map[string]func(*bundle){"keys": keys, "grants": grants, "grants end": grantsEnd, "grants that ended are bounded": endedGrantsAreBounded, "sessions": sessions, "sessions are bounded": sessionsAreBounded, "counts": counts} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(setup(t, open, 10))
		})
	}
}

func keys(b *bundle) {
	text, k := budget.MintKey(budget.RoleTenant, "team-a", b.clock.Now(), time.Hour)
	b.ok(b.CreateKey(b.ctx, k))
	if err := b.CreateKey(b.ctx, k); err == nil {
		b.Fatal("the same key was created twice")
	}
	_, admin := budget.MintKey(budget.RoleAdmin, "", b.clock.Now().Add(time.Second), 0)
	b.ok(b.CreateKey(b.ctx, admin))
	_, wrong := budget.MintKey(budget.RoleTenant, "", b.clock.Now(), 0)
	if err := b.CreateKey(b.ctx, wrong); err == nil {
		b.Fatal("a tenant's key without a tenant was created")
	}
	id, secret, ok := budget.ParseKey(text)
	equal(b, "parsed", ok, true)
	got, err := b.Key(b.ctx, id)
	b.ok(err)
	equal(b, "stored key", got, k)
	equal(b, "matches", got.Matches(secret), true)
	equal(b, "live", got.Live(b.clock.Now()), true)
	equal(b, "live after its expiry", got.Live(b.clock.Now().Add(time.Hour)), false)

	used := b.clock.Now().Add(time.Minute)
	b.ok(b.TouchKeys(b.ctx, map[string]time.Time{id: used, "unknown": used}))
	b.ok(b.TouchKeys(b.ctx, map[string]time.Time{id: used.Add(-time.Second)}))
	b.ok(b.TouchKeys(b.ctx, nil))
	revoked := b.clock.Now()
	b.ok(b.RevokeKey(b.ctx, id))
	b.clock.Advance(time.Second)
	b.ok(b.RevokeKey(b.ctx, id))
	b.is(b.RevokeKey(b.ctx, "unknown"), budget.ErrNotFound)
	all, err := b.Keys(b.ctx)
	b.ok(err)
	equal(b, "keys", len(all), 2)
	equal(b, "last used", all[0].LastUsedAt, used)
	equal(b, "revoked", all[0].RevokedAt, revoked)
	equal(b, "live after revocation", all[0].Live(b.clock.Now()), false)
	equal(b, "second", all[1], admin)
	_, err = b.Key(b.ctx, "unknown")
	b.is(err, budget.ErrNotFound)
}

func grants(b *bundle) {
	g := budget.Grant{Owner: "team-a", Model: "tiny", Grantee: "team-b", At: b.clock.Now()}
	b.grant(g, true)
	b.grant(budget.Grant{Owner: "team-a", Model: "tiny", Grantee: "team-b", At: b.clock.Now().Add(time.Hour)}, false)
	b.grant(budget.Grant{Owner: "team-a", Model: "Tiny", Grantee: "team-b"}, true)
	if _, err := b.PutGrant(b.ctx, budget.Grant{Owner: "team-a", Model: "tiny", Grantee: "team-a"}, true); err == nil {
		b.Fatal("a grant to oneself was stored")
	}
	all, err := b.Grants(b.ctx)
	b.ok(err)
	equal(b, "grants", len(all), 2)
	equal(b, "second", all[1], g)
	equal(b, "time of the first", all[0].At, b.clock.Now())
	for i := range 2 {
		b.endGrant("tiny", "team-b", false, i == 0)
	}
	all, err = b.Grants(b.ctx)
	b.ok(err)
	equal(b, "grants", len(all), 1)

	b.submit("team-a", "one", 1, 1)
	r := b.submit("team-a", "two", 1, 1)
	_, err = b.RequestRelease(b.ctx, r.Ref)
	b.ok(err)
	owned, err := b.OwnedNames(b.ctx)
	b.ok(err)
	if !slices.Equal(owned["team-a"], []string{"one", "two"}) || len(owned) != 1 {
		b.Fatalf("owned names are %v", owned)
	}
}

// One that ended is remembered: what was declined is not granted again but by
// an admin, and whoever took one back can change their mind.
func grantsEnd(b *bundle) {
	g := budget.Grant{Owner: "team-a", Model: "tiny", Grantee: "team-b", At: b.clock.Now()}
	b.endGrant("tiny", "team-b", true, false) // there is none
	b.ended()
	b.grant(g, true)
	b.clock.Advance(time.Minute)
	b.endGrant("tiny", "team-b", false, true)
	b.ended(budget.EndedGrant{Grant: g, EndedAt: b.clock.Now()})
	g.At = b.clock.Now()
	b.grant(g, true)
	b.ended()
	b.endGrant("tiny", "team-b", false, true)
	b.clock.Advance(time.Minute)
	b.endGrant("tiny", "team-b", true, true) // also what was taken back
	b.endGrant("tiny", "team-b", true, false)
	b.endGrant("tiny", "team-b", false, false)
	declined := budget.EndedGrant{Grant: g, EndedAt: b.clock.Now(), Declined: true}
	b.ended(declined)
	b.clock.Advance(time.Minute)
	_, err := b.PutGrant(b.ctx, g, false)
	refused := &budget.DeclinedError{}
	if !errors.As(err, &refused) || refused.Grant != g || !refused.At.Equal(declined.EndedAt) {
		b.Fatalf("what was declined is granted again: %v", err)
	}
	b.ended(declined)
	all, err := b.Grants(b.ctx)
	b.ok(err)
	equal(b, "grants", len(all), 0)
	n, err := b.Counts(b.ctx, "team-a")
	b.ok(err)
	equal(b, "what counts", n, budget.Counts{Grants: 1})
	changed, err := b.PutGrant(b.ctx, g, true)
	b.ok(err)
	equal(b, "an admin grants it", changed, true)
	b.ended()
	b.endGrant("tiny", "team-b", true, true)
	b.ended(budget.EndedGrant{Grant: g, EndedAt: b.clock.Now(), Declined: true})
}

// Of what an owner took back the oldest are forgotten, of what was declined none.
func endedGrantsAreBounded(b *bundle) {
	var all []budget.Row
	for i := range budget.MaxEndedGrants {
		g := budget.Grant{Owner: "team-a", Model: fmt.Sprintf("m%05d", i), Grantee: "team-b", At: b.clock.Now()}
		all = append(all, budget.EndedGrant{Grant: g, EndedAt: b.clock.Now().Add(time.Duration(i) * time.Second), Declined: i < 2})
	}
	other := budget.EndedGrant{Grant: budget.Grant{Owner: "team-b", Model: "m", Grantee: "team-a", At: b.clock.Now()}, EndedAt: b.clock.Now()}
	copied, ok := b.Ledger.(budget.Copying)
	if !ok {
		b.Fatal("the ledger takes no copy")
	}
	b.ok(copied.Import(b.ctx, budget.CopyHead{Incarnation: "bounded"}, func(yield func(budget.Row, error) bool) {
		for _, r := range append(all, other) {
			if !yield(r, nil) {
				return
			}
		}
	}, ""))
	b.clock.Advance(24 * time.Hour)
	for i := range 3 {
		name := fmt.Sprintf("n%d", i)
		b.grant(budget.Grant{Owner: "team-a", Model: name, Grantee: "team-b", At: b.clock.Now()}, true)
		b.endGrant(name, "team-b", false, true)
		b.clock.Advance(time.Second)
	}
	ended, err := b.EndedGrants(b.ctx)
	b.ok(err)
	kept := map[string]bool{}
	for _, g := range ended {
		kept[g.Owner+"/"+g.Model] = true
	}
	equal(b, "remembered", len(ended), budget.MaxEndedGrants+3) // two declined, one of another owner
	for name, want := range map[string]bool{"team-a/m00000": true, "team-a/m00001": true, "team-a/m00002": false, "team-a/m00003": true, "team-a/n0": true, "team-a/n2": true, "team-b/m": true} {
		equal(b, name+" is remembered", kept[name], want)
	}
}

func sessions(b *bundle) {
	_, k := budget.MintKey(budget.RoleAdmin, "", b.clock.Now(), 0)
	b.ok(b.CreateKey(b.ctx, k))
	s := budget.Session{IDHash: [32]byte{1}, KeyID: k.ID, CSRFToken: "csrf", CreatedAt: b.clock.Now(), ExpiresAt: b.clock.Now().Add(time.Minute)}
	b.ok(b.CreateSession(b.ctx, s))
	if err := b.CreateSession(b.ctx, budget.Session{IDHash: [32]byte{9}, KeyID: "unknown", ExpiresAt: s.ExpiresAt}); err == nil {
		b.Fatal("a session of an unknown key was created")
	}
	got, err := b.Session(b.ctx, s.IDHash)
	b.ok(err)
	equal(b, "session", got, s)
	_, err = b.Session(b.ctx, [32]byte{2})
	b.is(err, budget.ErrNotFound)
	b.clock.Advance(time.Minute)
	_, err = b.Session(b.ctx, s.IDHash)
	b.is(err, budget.ErrNotFound)
	s.ExpiresAt = b.clock.Now().Add(time.Minute)
	b.ok(b.CreateSession(b.ctx, s)) // the expired one is gone
	for range 2 {
		b.ok(b.DeleteSession(b.ctx, s.IDHash))
	}
	_, err = b.Session(b.ctx, s.IDHash)
	b.is(err, budget.ErrNotFound)
}

// A key may be signed in so often and no more: the oldest sessions go, and
// only that key's.
func sessionsAreBounded(b *bundle) {
	_, mine := budget.MintKey(budget.RoleAdmin, "", b.clock.Now(), 0)
	_, theirs := budget.MintKey(budget.RoleTenant, "team-a", b.clock.Now(), 0)
	b.ok(b.CreateKey(b.ctx, mine))
	b.ok(b.CreateKey(b.ctx, theirs))
	begin := func(k budget.APIKey, n byte) [32]byte {
		s := budget.Session{IDHash: [32]byte{n, k.ID[0], k.ID[1], k.ID[2], k.ID[3]}, KeyID: k.ID, CSRFToken: "csrf", CreatedAt: b.clock.Now(), ExpiresAt: b.clock.Now().Add(time.Hour)}
		b.ok(b.CreateSession(b.ctx, s))
		b.clock.Advance(time.Millisecond)
		return s.IDHash
	}
	other := begin(theirs, 0)
	var all [][32]byte
	for n := range byte(budget.MaxSessions + 2) {
		all = append(all, begin(mine, n))
	}
	for n, id := range all {
		if _, err := b.Session(b.ctx, id); (err == nil) != (n >= 2) {
			b.Errorf("session %d of %d: %v", n, len(all), err)
		}
	}
	_, err := b.Session(b.ctx, other)
	b.ok(err)
}

// What a tenant has stored is counted by tenant, in every state.
func counts(b *bundle) {
	n, err := b.Counts(b.ctx, "team-a")
	b.ok(err)
	equal(b, "counts of nobody", n, budget.Counts{})
	b.submit("team-a", "one", 1, 1)
	b.submit("team-a", "two", 1, 1)
	b.submit("team-b", "one", 1, 1)
	_, err = b.RequestRelease(b.ctx, budget.Ref{Tenant: "team-a", ID: "one"})
	b.ok(err)
	b.grant(budget.Grant{Owner: "team-a", Model: "two", Grantee: "team-b"}, true)
	b.grant(budget.Grant{Owner: "team-b", Model: "one", Grantee: "team-a"}, true)
	n, err = b.Counts(b.ctx, "team-a")
	b.ok(err)
	equal(b, "counts", n, budget.Counts{Waiting: 1, Requests: 2, Grants: 1})
}

func runAudit(t *testing.T, open Opener) {
	t.Run("newest first", func(t *testing.T) {
		t.Parallel()
		b := setup(t, open, 10)
		b.ok(b.AppendAudit(b.ctx, budget.AuditEntry{Who: "key k1 (admin)", What: "PUT /pools/default", When: b.clock.Now(), Result: "200"}))
		b.ok(b.AppendAudit(b.ctx, budget.AuditEntry{Who: "key k1 (admin)", What: "POST /requests/x/release", Why: "node lost", Result: "202"}))
		all, err := b.Audit(b.ctx, 0)
		b.ok(err)
		equal(b, "entries", len(all), 2)
		equal(b, "newest", all[0].Why, "node lost")
		equal(b, "time", all[0].When, b.clock.Now())
		one, err := b.Audit(b.ctx, 1)
		b.ok(err)
		equal(b, "limited", len(one), 1)
		equal(b, "seq", one[0].Seq, all[0].Seq)
		b.ok(b.PruneAudit(b.ctx, 2))
		b.ok(b.AppendAudit(b.ctx, budget.AuditEntry{Who: "key k1 (admin)", What: "DELETE /keys/k2", Result: "204"}))
		b.ok(b.PruneAudit(b.ctx, 2))
		for range 5 { // what a tenant does makes nobody else's changes go
			b.ok(b.AppendAudit(b.ctx, budget.AuditEntry{Who: "tenant k3", What: "POST /requests", Result: "ok"}))
			b.ok(b.PruneAudit(b.ctx, 2))
		}
		tenants, err := b.Audit(b.ctx, 2)
		b.ok(err)
		kept, err := b.Audit(b.ctx, 0)
		b.ok(err)
		if len(kept) != 4 || !tenants[0].ByTenant() || !tenants[1].ByTenant() {
			b.Fatalf("of both kinds are kept %+v", kept)
		}
		kept = kept[2:]
		if len(kept) != 2 || kept[0].What != "DELETE /keys/k2" || kept[1].Why != "node lost" {
			b.Errorf("kept %+v", kept)
		}
		id, seq, err := b.Identity(b.ctx)
		b.ok(err)
		equal(b, "incarnation length", len(id), 32)
		equal(b, "journal seq", seq, 0)
	})
	t.Run("no tenant makes another's changes go", func(t *testing.T) {
		t.Parallel()
		auditIsShared(setup(t, open, 10))
	})
	t.Run("searched in pages", func(t *testing.T) {
		t.Parallel()
		b := setup(t, open, 10)
		for i := range 12 {
			e := budget.AuditEntry{Who: "tenant k1", What: "POST /requests", Tenant: "team-a", Source: "192.0.2.1", Result: "ok", When: b.clock.Now()}
			if i%3 == 0 {
				e.Who, e.What, e.Tenant = "admin k2", "PUT /tenants/team-b/quota", "team-b"
			}
			b.ok(b.AppendAudit(b.ctx, e))
			b.clock.Advance(time.Minute)
		}
		begin := b.clock.Now().Add(-12 * time.Minute)
		for name, c := range map[string]struct {
			q    budget.AuditQuery
			want []int64
		}{
			"all":      {budget.AuditQuery{}, []int64{12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}},
			"tenant":   {budget.AuditQuery{Tenant: "team-b"}, []int64{10, 7, 4, 1}},
			"key":      {budget.AuditQuery{Actor: "k2"}, []int64{10, 7, 4, 1}},
			"actor":    {budget.AuditQuery{Actor: "tenant k1", Since: begin.Add(8 * time.Minute)}, []int64{12, 11, 9}},
			"action":   {budget.AuditQuery{Action: "PUT /tenants/"}, []int64{10, 7, 4, 1}},
			"not such": {budget.AuditQuery{Action: "tenants"}, nil},
			"times":    {budget.AuditQuery{Since: begin.Add(2 * time.Minute), Until: begin.Add(5 * time.Minute)}, []int64{5, 4, 3}},
			"before":   {budget.AuditQuery{Before: 4}, []int64{3, 2, 1}},
		} {
			var seqs []int64
			for q, pages := c.q, 0; ; pages++ {
				q.Limit = 2
				page, err := b.SearchAudit(b.ctx, q)
				b.ok(err)
				for _, e := range page.Entries {
					seqs = append(seqs, e.Seq)
					equal(b, "source", e.Source, "192.0.2.1")
				}
				if page.Next == 0 {
					break
				}
				if len(page.Entries) > 2 || pages > 6 {
					b.Fatalf("%s: page %d is %+v", name, pages, page)
				}
				q.Before = page.Next
			}
			if !slices.Equal(seqs, c.want) {
				b.Errorf("%s: %v, want %v", name, seqs, c.want)
			}
		}
	})
	t.Run("a closed ledger answers that it is unavailable", func(t *testing.T) {
		t.Parallel()
		l := open(t, NewClock().Now)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		b := &bundle{T: t, Ledger: l, ctx: t.Context()}
		_, err := l.Submit(b.ctx, submission("team-a", "x", 1, 1))
		b.is(err, budget.ErrUnavailable)
		_, err = l.Get(b.ctx, budget.Ref{Tenant: "team-a", ID: "x"})
		b.is(err, budget.ErrUnavailable)
	})
}

// A tenant that floods makes only its own changes go.
func auditIsShared(b *bundle) {
	put := func(who, tenant string, n int) {
		for range n {
			b.ok(b.AppendAudit(b.ctx, budget.AuditEntry{Who: who, What: "POST /requests", Tenant: tenant, Result: "ok"}))
		}
	}
	put("tenant a", "team-a", 2)
	put("admin k", "team-a", 3)
	put("tenant c", "team-c", 4)
	for range 4 { // one floods
		put("tenant b", "team-b", 10)
		b.ok(b.PruneAudit(b.ctx, 10))
	}
	all, err := b.Audit(b.ctx, 0)
	b.ok(err)
	kept := map[string]int{}
	for _, e := range all {
		kept[e.Who]++
	}
	if want := map[string]int{"tenant a": 2, "admin k": 3, "tenant c": 4, "tenant b": 4}; !maps.Equal(kept, want) {
		b.Errorf("kept are %v, want %v", kept, want)
	}
	equal(b, "the newest of the flood", all[0].Seq, 49)
	put("admin k", "team-a", 12)
	b.ok(b.PruneAudit(b.ctx, 10))
	all, err = b.Audit(b.ctx, 0)
	b.ok(err)
	equal(b, "kept after the others' turn", len(all), 20)
}

// grant puts a grant, which changes something or not.
func (b *bundle) grant(g budget.Grant, changes bool) {
	b.Helper()
	changed, err := b.PutGrant(b.ctx, g, false)
	b.ok(err)
	equal(b, "a grant changes something", changed, changes)
}

// endGrant ends one of team-a, which changes something or not.
func (b *bundle) endGrant(model, grantee string, declined, changes bool) {
	b.Helper()
	changed, err := b.DeleteGrant(b.ctx, "team-a", model, grantee, declined)
	b.ok(err)
	equal(b, "the end of a grant changes something", changed, changes)
}

// ended looks which grants are remembered.
func (b *bundle) ended(want ...budget.EndedGrant) {
	b.Helper()
	got, err := b.EndedGrants(b.ctx)
	b.ok(err)
	if !slices.Equal(got, want) {
		b.Fatalf("ended are %+v, want %+v", got, want)
	}
}
