package app

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"modeldock.io/internal/api"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
)

// olderEvery is how often a ledger that stands still is compared again: its
// differences may be repaired by hand.
const olderEvery = 5 * time.Second

// age is what is known of the ledger against what was delivered. The lock is
// held by whoever compares, accepts or imports.
type age struct {
	sync.Mutex
	seq, stamped int64
	found        []delivery.Difference
	details      atomic.Pointer[string] // the differences in words; read without the lock
}

// stampNow makes the ledger's highest journal number durable in the data
// directory; it comes before every delivery.
func (p *platform) stampNow(ctx context.Context) (int64, error) {
	incarnation, seq, err := p.ledger.Identity(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the ledger's journal number: %w", err)
	}
	return seq, p.stamps.raise(incarnation, seq)
}

// stamped is the highest number that an incarnation left outside its database.
func (p *platform) stamped(ctx context.Context, incarnation string) (int64, error) {
	highest := p.stamps.of(incarnation)
	objects, err := p.target.List(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the stamps on the objects: %w", err)
	}
	for _, st := range objects {
		if st.Ledger == incarnation {
			highest = max(highest, st.JournalSeq)
		}
	}
	return highest, nil
}

// checkAge compares the ledger's journal with what was stamped. One that is
// older stands still unless it and the world agree anyway.
func (p *platform) checkAge(ctx context.Context) error {
	p.age.Lock()
	defer p.age.Unlock()
	return p.checkAgeLocked(ctx)
}

func (p *platform) checkAgeLocked(ctx context.Context) error {
	incarnation, seq, err := p.ledger.Identity(ctx)
	if err != nil {
		return fmt.Errorf("read the ledger's identity: %w", err)
	}
	stamped, err := p.stamped(ctx, incarnation)
	if err != nil {
		return err
	}
	if seq >= stamped {
		p.goOn(ctx)
		return nil
	}
	found, err := p.reconcile.Compare(ctx)
	if err != nil {
		return fmt.Errorf("compare an older ledger with the objects: %w", err)
	}
	p.age.seq, p.age.stamped, p.age.found = seq, stamped, found
	if len(found) == 0 {
		if err := p.ledger.LiftJournal(ctx, stamped); err != nil {
			return err
		}
		p.log.Info("the ledger is older than what was delivered, but nothing differs: it goes on", "journal", seq, "stamped", stamped)
		p.goOn(ctx)
		return nil
	}
	why, details := p.olderWhy(), delivery.Few(found)
	p.age.details.Store(&details)
	if p.doubt.Halted() != why {
		p.log.Error("the ledger is older than what was delivered", "why", why)
		for _, d := range found {
			p.log.Warn("older ledger and world differ", "tenant", d.Ref.Tenant, "id", d.Ref.ID, "object", d.Object.Name, "uid", d.Object.UID, "note", d.Note)
		}
	}
	p.doubt.Halt(why)
	p.health.report(ctx, "restore", p.stillStanding())
	return nil
}

// goOn ends a standstill, if there is one.
func (p *platform) goOn(ctx context.Context) {
	p.age.found = nil
	p.age.details.Store(nil)
	p.doubt.Resume()
	p.health.report(ctx, "restore", nil)
	p.moved.ring()
}

func (p *platform) stillStanding() error {
	if why := p.doubt.Halted(); why != "" {
		return standstill(why)
	}
	return nil
}

// standstill is why nothing is admitted, delivered or credited.
type standstill string

func (s standstill) Error() string { return string(s) }

// olderWhy is for everybody: it has figures and names nobody's requests.
func (p *platform) olderWhy() string {
	return fmt.Sprintf("this ledger is older than what was delivered: its journal ends at %d, and %d was stamped at the latest delivery. "+
		"Ledger and objects differ in %d places (an admin sees which: `modeldock ledger verify`). Nothing is admitted, delivered or credited. "+
		"Stop ModelDock and put the newer database back, or run `modeldock ledger import --accept-older`: it takes this database as the truth and deletes %d objects with their processes",
		p.age.seq, p.age.stamped, len(p.age.found), delivery.CountDrops(p.age.found))
}

// compareAgain looks whether a ledger that stands still may go on.
func (p *platform) compareAgain(ctx context.Context) error {
	if p.doubt.Halted() == "" || !p.age.TryLock() {
		return nil // or somebody decides right now
	}
	defer p.age.Unlock()
	return p.checkAgeLocked(ctx)
}

// tellOthers says whose stamps lie in the data directory beside the ledger's own.
func (p *platform) tellOthers(incarnation string) {
	for _, other := range p.stamps.others(incarnation) {
		p.log.Warn("another ledger delivered from this data directory; its objects are not this ledger's and are left alone",
			"this", incarnation, "other", other, "journal", p.stamps.of(other))
	}
}

// Standstill is why nothing is admitted, delivered or credited, or empty.
func (r restorer) Standstill() string { return r.p.doubt.Halted() }

// Differences names the first differences of an older ledger and the world.
func (r restorer) Differences() string {
	if details := r.p.age.details.Load(); details != nil {
		return *details
	}
	return ""
}

// AcceptOlder takes the ledger as it is for the truth.
func (r restorer) AcceptOlder(ctx context.Context, who, why string) (api.Accepted, error) {
	p := r.p
	p.age.Lock()
	defer p.age.Unlock()
	var out api.Accepted
	if err := p.checkAgeLocked(ctx); err != nil {
		return out, err
	}
	if p.doubt.Halted() == "" {
		return out, api.Conflict("the ledger is not older than what was delivered, or nothing differs: there is nothing to accept, and it goes on by itself")
	}
	found, err := p.reconcile.Accept(ctx, func(d delivery.Difference) error {
		return p.ledger.AppendAudit(ctx, budget.AuditEntry{
			Who: who, When: p.clock(), Why: why, Result: "deleted: " + d.Note,
			What: fmt.Sprintf("accept an older ledger: object %s (uid %s) of request %s of tenant %s", d.Object.Name, d.Object.UID, d.Ref.ID, d.Ref.Tenant),
		})
	})
	if err != nil {
		return out, fmt.Errorf("accept the older ledger (it still stands still; the same call goes on where this one ended): %w", err)
	}
	if err := p.ledger.LiftJournal(ctx, p.age.stamped); err != nil {
		return out, err
	}
	if out.JournalSeq, err = p.stampNow(ctx); err != nil {
		return out, err
	}
	out.Differences = found
	p.log.Info("an older ledger was accepted", "who", who, "differences", len(found), "journal", out.JournalSeq)
	p.goOn(ctx)
	return out, nil
}
