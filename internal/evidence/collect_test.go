package evidence_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/evidence"
	"modeldock.io/internal/modelspec"
	"modeldock.io/internal/traffic"
)

// observer is a target whose answer a test writes.
type observer struct {
	observe func() (delivery.Status, error)
}

func (o observer) Observe(context.Context, budget.Ref) (delivery.Status, error) { return o.observe() }

// interleaved does something once, right after the collector's first read of
// the reservation.
type interleaved struct {
	*sqlledger.Ledger
	between func()
}

func (i *interleaved) Get(ctx context.Context, ref budget.Ref) (budget.Reservation, error) {
	r, err := i.Ledger.Get(ctx, ref)
	if do := i.between; do != nil {
		i.between = nil
		do()
	}
	return r, err
}

type bundle struct {
	*testing.T
	ledger    *sqlledger.Ledger
	between   *interleaved
	status    delivery.Status
	statusErr error
}

func setup(t *testing.T) *bundle {
	t.Helper()
	l, err := sqlledger.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), sqlledger.Options{Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	b := &bundle{T: t, ledger: l, between: &interleaved{Ledger: l}}
	_, err = l.SetPool(t.Context(), "default", 8)
	b.ok(err)
	_, err = l.SetQuota(t.Context(), ref.Tenant, 2)
	b.ok(err)
	_, err = l.Submit(t.Context(), budget.Submission{Ref: ref, Cost: 1, Pool: "default", TTL: time.Hour, Model: modelspec.Default(ref.ID)})
	b.ok(err)
	return b
}

func (b *bundle) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bundle) admit() {
	b.Helper()
	taken, err := b.ledger.Admit(b.Context(), 0)
	b.ok(err)
	if len(taken) != 1 {
		b.Fatalf("admitted %d requests, want 1", len(taken))
	}
}

// deliver binds object u1 and shows it as running.
func (b *bundle) deliver() {
	b.Helper()
	rows, err := b.ledger.Claim(b.Context(), "relay", 1, time.Minute)
	b.ok(err)
	obj := budget.Object{Name: delivery.ObjectName(ref), UID: "u1"}
	b.ok(b.ledger.Delivered(b.Context(), rows[0], obj))
	b.ok(b.ledger.MarkReady(b.Context(), ref, "u1"))
	b.status = delivery.Status{Ref: ref, Object: obj, Exists: true, Wanted: 1, Ready: 1, Replicas: []delivery.Replica{{
		UID: "p1", Phase: delivery.PhaseReady, Cards: []delivery.Card{{UUID: "c"}}, StartedAt: time.Now(), PlacedAt: time.Now(), ReadyAt: time.Now(),
	}}}
}

// release takes the reservation all the way to its credit.
func (b *bundle) release() {
	b.Helper()
	_, err := b.ledger.RequestRelease(b.Context(), ref)
	b.ok(err)
	rows, err := b.ledger.Claim(b.Context(), "relay", 1, time.Minute)
	b.ok(err)
	b.ok(b.ledger.DeleteDelivered(b.Context(), rows[0]))
	b.ok(b.ledger.MarkGone(b.Context(), ref, "u1"))
	_, err = b.ledger.Credit(b.Context(), ref, false)
	b.ok(err)
	b.status = delivery.Status{Ref: ref}
}

func (b *bundle) explain() evidence.Document {
	b.Helper()
	doc, err := b.collector().Explain(b.Context(), ref)
	b.ok(err)
	return doc
}

func (b *bundle) collector() evidence.Collector {
	return evidence.Collector{
		Ledger: b.between, Store: b.ledger, Clock: time.Now,
		Target:    observer{func() (delivery.Status, error) { return b.status, b.statusErr }},
		Endpoints: func(budget.Ref) ([]traffic.Endpoint, error) { return nil, nil },
	}
}

func TestExplainsOnlyTheTenantsOwn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, r := range []budget.Ref{{Tenant: "team-b", ID: ref.ID}, {Tenant: ref.Tenant, ID: "other"}} {
		if _, err := b.collector().Explain(t.Context(), r); !errors.Is(err, budget.ErrNotFound) {
			t.Errorf("explain %v: %v, want not found", r, err)
		}
	}
}

func TestExplainsAWaitingRequestByItsStanding(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.ledger.SetQuota(t.Context(), ref.Tenant, 0)
	b.ok(err)
	if doc := b.explain(); doc.BrokenAt != "reserved" || doc.Reason != "ExceedsQuota" || doc.Message == "" {
		t.Errorf("broken at %q: %s: %s", doc.BrokenAt, doc.Reason, doc.Message)
	}
}

func TestAdmissionBetweenTwoReads(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.between.between = b.admit
	doc := b.explain()
	if s := find(t, doc, "reserved"); s.Status != evidence.OK || s.Facts["debits"] != 1 {
		t.Errorf("reserved is %s with %v", s.Status, s.Facts)
	}
}

// The release runs to its end between two reads: the document must be of one
// moment, and must tell neither of a lost object nor of a credit too many.
func TestReleaseBetweenTwoReads(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*bundle){
		"asked for and done": func(*bundle) {},
		"asked for before": func(b *bundle) {
			_, err := b.ledger.RequestRelease(b.Context(), ref)
			b.ok(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.admit()
			b.deliver()
			start(b)
			b.between.between = b.release
			doc := b.explain()
			if doc.BrokenAt == "children" || doc.BrokenAt == "credited" {
				t.Fatalf("broken at %s: %s", doc.BrokenAt, doc.Message)
			}
			if s := find(t, doc, "credited"); s.Status != evidence.OK {
				t.Errorf("credited is %s: %s", s.Status, s.Found)
			}
		})
	}
}

func TestTargetThatCannotBeRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.admit()
	b.deliver()
	_, key := budget.MintKey(budget.RoleTenant, ref.Tenant, time.Now(), 0)
	b.ok(b.ledger.CreateKey(t.Context(), key))
	b.statusErr = errors.New("no route to host")
	doc := b.explain()
	for _, step := range []string{"children", "placed", "device", "started"} {
		if s := find(t, doc, step); s.Status != evidence.Unknown || s.Found != "no route to host" {
			t.Errorf("step %s is %s (%s), want unknown", step, s.Status, s.Found)
		}
	}
	if doc.BrokenAt != "" {
		t.Errorf("broken at %s, although nothing is known to be broken", doc.BrokenAt)
	}
}

func TestLiveKeysAndFirstChunkAreRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.admit()
	b.deliver()
	now := time.Now().UTC().Truncate(time.Microsecond)
	_, mine := budget.MintKey(budget.RoleTenant, ref.Tenant, now, 0)
	_, old := budget.MintKey(budget.RoleTenant, ref.Tenant, now.Add(-time.Hour), time.Minute)
	_, theirs := budget.MintKey(budget.RoleTenant, "team-b", now, 0)
	for _, k := range []budget.APIKey{mine, old, theirs} {
		b.ok(b.ledger.CreateKey(t.Context(), k))
	}
	b.ok(b.ledger.PutInferences(t.Context(), []traffic.Inference{{
		RequestID: "i1", Tenant: "team-a", Owner: ref.Tenant, Model: "demo", Version: "v1", ReservationID: ref.ID, Path: "/v1/chat/completions",
		Status: 200, Outcome: traffic.Completed, ReceivedAt: now, SentAt: now, FirstByteAt: now, FirstContentAt: now.Add(time.Millisecond), EndpointUID: "p1",
	}}))
	doc := b.explain()
	if s := find(t, doc, "permitted"); s.Facts["liveKeys"] != 1 {
		t.Errorf("live keys: %v, want only the owner's living one", s.Facts["liveKeys"])
	}
	if s := find(t, doc, "firstChunk"); s.Status != evidence.OK || s.Facts["requestId"] != "i1" {
		t.Errorf("first chunk is %s with %v", s.Status, s.Facts)
	}
}

// What a target remembers counts only for the object that was bound.
func TestRememberedFactsAreOfTheBoundObject(t *testing.T) {
	t.Parallel()
	for uid, want := range map[string]any{"u1": "c", "u0": nil} {
		b := setup(t)
		b.admit()
		b.deliver()
		last := b.status.Replicas
		b.release()
		b.status.Object, b.status.Last = budget.Object{Name: delivery.ObjectName(ref), UID: uid}, last
		if s := find(t, b.explain(), "placed"); s.Status != evidence.OK || s.Facts["card"] != want {
			t.Errorf("object %s: placed: %+v, want card %v", uid, s, want)
		}
	}
}

// What somebody deleted by hand says so, also after everything is credited.
func TestDeletionByHandIsNamed(t *testing.T) {
	t.Parallel()
	for name, byHand := range map[string]bool{"by hand": true, "asked for": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.admit()
			b.deliver()
			other := budget.Ref{Tenant: ref.Tenant, ID: ref.ID + "-other"}
			if byHand {
				other = ref
			}
			b.ok(b.ledger.AppendAudit(t.Context(), budget.AuditEntry{Who: "delivery", What: delivery.ByHandAudit(other), Why: "it was deleted by hand", Result: "ok"}))
			b.release()
			s := find(t, b.explain(), "deleting")
			if (s.Reason == "DeletedByHand") != byHand || (s.Facts["why"] == "it was deleted by hand") != byHand || s.Status != evidence.OK {
				t.Errorf("deleting is %s (%s) with %v", s.Status, s.Reason, s.Facts)
			}
		})
	}
}

// A replica that sleeps in host memory has no card and serves nobody; it says
// nothing against those that do.
func TestSleepersProveNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.admit()
	b.deliver()
	b.status.Replicas = append([]delivery.Replica{{Name: "r-0", UID: "p0", Phase: delivery.PhaseAsleep, StartedAt: time.Now(), PlacedAt: time.Now()}}, b.status.Replicas...)
	doc := b.explain()
	for _, name := range []string{"children", "placed", "started"} {
		if s := find(t, doc, name); s.Status != evidence.OK {
			t.Errorf("%s is %s: %s", name, s.Status, s.Reason)
		}
	}
	if s := find(t, doc, "children"); s.Facts["replicas"] != 1 || s.Facts["asleep"] != 1 {
		t.Errorf("children: %v", s.Facts)
	}
}
