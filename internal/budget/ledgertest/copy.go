package ledgertest

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/backup"
	"modeldock.io/internal/evidence"
	"modeldock.io/internal/traffic"
)

func runCopy(t *testing.T, open Opener) {
	t.Run("a copy is the ledger again, and goes on", func(t *testing.T) { testRoundTrip(t, open, open) })
	t.Run("only into an empty ledger", func(t *testing.T) {
		b := setup(t, open, 8)
		Fill(t, b.Ledger, b.clock)
		doc := b.export()
		var full *budget.NotEmptyError
		if err := b.take(doc, ""); !errors.As(err, &full) || full.Reservations == 0 || full.Entries == 0 {
			t.Fatalf("import into a full ledger: %v, want NotEmptyError with figures", err)
		}
		if again := b.export(); again != doc {
			t.Fatal("a refused import changed the ledger")
		}
	})
	t.Run("the caller's key stays", func(t *testing.T) {
		from, to := setup(t, open, 8), setup(t, open, 8)
		Fill(t, from.Ledger, from.clock)
		for _, id := range []string{"mine", "other"} {
			to.ok(to.CreateKey(to.ctx, budget.APIKey{ID: id, Role: budget.RoleAdmin, CreatedAt: to.clock.Now()}))
		}
		to.ok(to.take(from.export(), "mine"))
		if _, err := to.Key(to.ctx, "mine"); err != nil {
			t.Errorf("the caller's key: %v", err)
		}
		_, err := to.Key(to.ctx, "other")
		to.is(err, budget.ErrNotFound)
	})
	t.Run("a broken copy changes nothing", func(t *testing.T) { testBrokenCopy(t, open) })
	t.Run("the highest numbers that are taken leave room", func(t *testing.T) { testNumbersGoOn(t, open) })
	t.Run("a lifted journal goes on above", func(t *testing.T) {
		b := setup(t, open, 8)
		b.quota("team-a", 8)
		b.reserved("before", 1)
		b.ok(b.LiftJournal(b.ctx, 500))
		_, seq, err := b.Identity(b.ctx)
		b.ok(err)
		equal(b, "journal seq after the lift", seq, 500)
		b.ok(b.LiftJournal(b.ctx, 20))
		b.reserved("after", 1)
		entries, err := b.Journal(b.ctx, budget.Ref{Tenant: "team-a", ID: "after"})
		b.ok(err)
		equal(b, "number of the next entry", entries[0].Seq, 501)
	})
}

// RoundTrip writes a ledger of one kind into one of another kind and back.
func RoundTrip(t *testing.T, from, to Opener) { testRoundTrip(t, from, to) }

func testRoundTrip(t *testing.T, openFrom, openTo Opener) {
	from, to, back := setup(t, openFrom, 8), setup(t, openTo, 8), setup(t, openFrom, 8)
	Fill(t, from.Ledger, from.clock)
	for _, b := range []*bundle{to, back} {
		b.clock.Advance(from.clock.Now().Sub(b.clock.Now()))
	}
	doc := from.export()
	to.ok(to.take(doc, ""))
	if copied := to.export(); copied != doc {
		t.Fatalf("the copy is another ledger:\n%s\nwant:\n%s", copied, doc)
	}
	back.ok(back.take(to.export(), ""))
	if copied := back.export(); copied != doc {
		t.Fatalf("the copy of the copy is another ledger:\n%s\nwant:\n%s", copied, doc)
	}
	// It goes on: what was half delivered is delivered, what waits is admitted
	// once there is room, and every number is a new one.
	was, seq, err := from.Identity(from.ctx)
	from.ok(err)
	same, sameSeq, err := to.Identity(to.ctx)
	to.ok(err)
	equal(to, "incarnation", same, was)
	equal(to, "journal seq", sameSeq, seq)
	to.clock.Advance(time.Hour)
	for _, in := range to.claim("relay") {
		if in.Op == budget.Delete {
			to.ok(to.DeleteDelivered(to.ctx, in))
		} else {
			to.ok(to.Delivered(to.ctx, in, object("uid-of-"+in.ID)))
		}
	}
	_, err = to.Credit(to.ctx, budget.Ref{Tenant: "team-a", ID: "releasing"}, false)
	to.ok(err)
	last := to.submit("team-a", "newest", 3, 50) // more than is left
	if last.Seq <= to.get("team-a", "waiting").Seq {
		t.Errorf("the newest request has arrival number %d", last.Seq)
	}
	if got := strings.Join(to.admit(), " "); got != "waiting" {
		t.Errorf("admitted %q, want the one that waited longest", got)
	}
	entries, err := to.Journal(to.ctx, budget.Ref{Tenant: "team-a", ID: "waiting"})
	to.ok(err)
	if entries[0].Seq <= seq {
		t.Errorf("the new entry has number %d, want one above %d", entries[0].Seq, seq)
	}
	to.ok(to.AppendAudit(to.ctx, budget.AuditEntry{Who: "admin k", What: "more", Result: "ok"}))
}

// testNumbersGoOn: a ledger that a copy gave the highest numbers gives out the
// next ones, and its own copy is taken.
func testNumbersGoOn(t *testing.T, open Opener) {
	from, to := setup(t, open, 8), setup(t, open, 8)
	Fill(t, from.Ledger, from.clock)
	to.clock.Advance(from.clock.Now().Sub(to.clock.Now()))
	most := budget.MostGivenOut(to.clock.Now())
	head, rows := backupOf(t, from.export())
	head.JournalSeq = most
	highest := func(yield func(budget.Row, error) bool) {
		for r, err := range rows {
			switch row := r.(type) {
			case budget.Reservation:
				switch row.ID {
				case "cancelled": // the last to arrive
					row.Seq = most
				case "waiting":
					row.Revision, row.Submits = most, most
				}
				r = row
			case budget.Intent:
				if row.ID == "leased" { // the last of the outbox
					row.Seq, row.Attempts = most, most
				}
				r = row
			case budget.AuditEntry:
				row.Seq = most
				r = row
			}
			if !yield(r, err) {
				return
			}
		}
	}
	_, err := backup.Check(head, highest, to.clock.Now())
	to.ok(err)
	to.ok(to.Import(to.ctx, head, highest, ""))
	to.clock.Advance(time.Hour)
	to.claim("relay")
	to.submit("team-a", "newest", 1, 50)
	to.submit("team-a", "waiting", 1, 50) // once more
	to.quota("team-a", 8)
	to.admit()
	to.ok(to.AppendAudit(to.ctx, budget.AuditEntry{Who: "admin k", What: "more", Result: "ok"}))
	_, seq, err := to.Identity(to.ctx)
	to.ok(err)
	if newest := to.get("team-a", "newest"); newest.Seq <= most || seq <= most || to.get("team-a", "waiting").Submits <= most {
		t.Errorf("the next arrival number is %d and the journal's %d, want both above %d", newest.Seq, seq, most)
	}
	// setup looks that its copy is taken.
}

func testBrokenCopy(t *testing.T, open Opener) {
	from, to := setup(t, open, 8), setup(t, open, 8)
	Fill(t, from.Ledger, from.clock)
	head, rows := backupOf(t, from.export())
	to.quota("seeded", 3)
	before := to.export()
	for name, spoil := range map[string]func(budget.Row) (budget.Row, error){
		"a figure that is not the sum": func(r budget.Row) (budget.Row, error) {
			if p, ok := r.(budget.Pool); ok {
				p.Used++
				return p, nil
			}
			return r, nil
		},
		"an unreadable row at the end": func(r budget.Row) (budget.Row, error) {
			if _, ok := r.(evidence.Kept); ok {
				return nil, errors.New("cut off")
			}
			return r, nil
		},
	} {
		err := to.Import(to.ctx, head, func(yield func(budget.Row, error) bool) {
			for r, err := range rows {
				if err == nil {
					r, err = spoil(r)
				}
				if !yield(r, err) || err != nil {
					return
				}
			}
		}, "")
		if err == nil {
			t.Fatalf("%s: imported", name)
		}
		if errors.Is(err, budget.ErrUnavailable) {
			t.Errorf("%s: %v, which tells to try again", name, err)
		}
		if after := to.export(); after != before {
			t.Fatalf("%s: a refused import changed the ledger", name)
		}
	}
}

// Fill brings a ledger with pool "default" of 8 slots into every state that a
// request can be in, with what belongs to it.
func Fill(t *testing.T, l budget.Ledger, clock *Clock) {
	b := &bundle{T: t, Ledger: l, ctx: t.Context(), clock: clock}
	b.quota("team-a", 4)
	b.pool("spare", 2)
	_, err := b.SetEngines(b.ctx, "team-a", []string{"custom", "hf://"})
	b.ok(err)
	_, err = b.SetLimits(b.ctx, "team-a", someLimits())
	b.ok(err)
	_, err = b.SetWarm(b.ctx, "spare", someWarm())
	b.ok(err)
	b.ok(b.CreateKey(b.ctx, budget.APIKey{ID: "k1", Role: budget.RoleTenant, Tenant: "team-a", SecretHash: [32]byte{1, 2, 3}, CreatedAt: clock.Now()}))
	b.grant(budget.Grant{Owner: "team-a", Model: "running", Grantee: "team-b", At: clock.Now()}, true)
	b.grant(budget.Grant{Owner: "team-a", Model: "running", Grantee: "team-c", At: clock.Now()}, true)
	b.endGrant("running", "team-c", true, true)
	b.ok(b.AppendAudit(b.ctx, budget.AuditEntry{Who: "admin k0", What: "PUT /tenants/team-a/quota <4>", Why: "because & so", Result: "ok", Tenant: "team-a", Source: "2001:db8::1"}))
	released := b.reserved("released", 1)
	b.credit(released.Ref)
	b.reserved("running", 1)
	b.ok(b.Delivered(b.ctx, b.claimOne("relay"), object("uid-running")))
	b.ok(b.MarkReady(b.ctx, budget.Ref{Tenant: "team-a", ID: "running"}, "uid-running"))
	b.ok(b.SetNode(b.ctx, budget.Ref{Tenant: "team-a", ID: "running"}, "node-1"))
	if store, ok := l.(evidence.Store); ok {
		b.ok(store.PutInferences(b.ctx, []traffic.Inference{{
			RequestID: "call-1", Owner: "team-a", Tenant: "team-b", ReservationID: "running", EndpointUID: "e",
			ReceivedAt: clock.Now(), SentAt: clock.Now(), FirstContentAt: clock.Now().Add(time.Second), LastByteAt: clock.Now().Add(time.Second),
		}}))
	}
	releasing := b.reserved("releasing", 2)
	b.ok(b.Delivered(b.ctx, b.claimOne("relay"), object("uid-releasing")))
	_, err = b.RequestRelease(b.ctx, releasing.Ref)
	b.ok(err)
	b.reserved("leased", 1)
	b.claim("a relay that died")
	b.submit("team-a", "waiting", 1, 50)
	short := submission("team-b", "expired", 1, 50)
	short.TTL = time.Minute
	_, err = b.Submit(b.ctx, short)
	b.ok(err)
	clock.Advance(2 * time.Minute)
	_, err = b.Expire(b.ctx)
	b.ok(err)
	cancelled := b.submit("team-b", "cancelled", 1, 50)
	_, err = b.RequestRelease(b.ctx, cancelled.Ref)
	b.ok(err)
}

// export writes the ledger out as a document.
func (b *bundle) export() string {
	b.Helper()
	return Export(b.T, b.ctx, b.Ledger)
}

// Export writes a ledger out as a document.
func Export(t *testing.T, ctx context.Context, l budget.Ledger) string { //nolint:revive // t first, as everywhere in tests
	t.Helper()
	var out bytes.Buffer
	w := backup.NewWriter(&out)
	if err := errors.Join(l.Export(ctx, w.Head, w.Row), w.Close()); err != nil {
		t.Fatalf("export: %v", err)
	}
	return out.String()
}

// importable fails unless a copy of the ledger is taken for one.
func (b *bundle) importable() {
	b.Helper()
	Importable(b.T, b.ctx, b.Ledger, b.clock.Now())
}

// Importable fails unless a copy of a ledger is taken for one at a moment.
func Importable(t *testing.T, ctx context.Context, l budget.Ledger, now time.Time) { //nolint:revive // t first, as everywhere in tests
	t.Helper()
	head, rows := backupOf(t, Export(t, ctx, l))
	if _, err := backup.Check(head, rows, now); err != nil {
		t.Errorf("what the ledger exports is not taken in again: %v", err)
	}
}

// take imports a document, judged as whoever imports does.
func (b *bundle) take(doc, keep string) error {
	b.Helper()
	head, rows := backupOf(b.T, doc)
	if _, err := backup.Check(head, rows, b.clock.Now()); err != nil {
		return err
	}
	return b.Import(b.ctx, head, rows, keep)
}

func backupOf(t *testing.T, doc string) (budget.CopyHead, iter.Seq2[budget.Row, error]) {
	t.Helper()
	r := backup.NewReader(strings.NewReader(doc))
	head, err := r.Head()
	if err != nil {
		t.Fatalf("read the copy's head: %v", err)
	}
	return head, r.Rows()
}
