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
const olderEvery = 2 * time.Second

// ledgerWait is how long a ledger may take to say who it is.
const ledgerWait = 3 * time.Second

// age is what is known of the ledger against what was delivered. The lock is
// held by whoever compares, accepts or imports.
type age struct {
	sync.Mutex
	incarnation  string       // that this process works for
	older        bool         // it was found older, and that has not ended yet
	seen         atomic.Int64 // the highest journal number that this process read of it
	seq, stamped int64
	found        []delivery.Difference
	details      atomic.Pointer[string] // the differences in words; read without the lock
}

// stampKeeper keeps the highest journal number outside of the ledger's
// database, by incarnation.
type stampKeeper interface {
	// read returns the number kept for an incarnation, 0 if there is none.
	read(ctx context.Context, incarnation string) (int64, error)
	// raise makes seq durable before it returns; a number never falls.
	raise(ctx context.Context, incarnation string, seq int64) error
}

// stampNow makes the ledger's highest journal number durable in the data
// directory; it comes before every delivery.
func (c *control) stampNow(ctx context.Context) (int64, error) {
	incarnation, seq, back, err := c.identify(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the ledger's journal number: %w", err)
	}
	if back {
		return 0, fmt.Errorf("nothing is delivered: the ledger's journal ends at %d, and %d was read before: the database went back to an older state", seq, c.age.seen.Load())
	}
	return seq, c.stamps.raise(ctx, incarnation, seq)
}

// identify asks the ledger who it is. back reports that its journal is shorter
// than this process had seen it before: under a running ModelDock the database
// was replaced by an older copy. What another goroutine reads meanwhile may be
// longer, and says nothing.
func (c *control) identify(ctx context.Context) (incarnation string, seq int64, back bool, err error) {
	before := c.age.seen.Load()
	if incarnation, seq, err = c.ledger.Identity(ctx); err != nil {
		return "", 0, false, err
	}
	for seen := before; seen < seq && !c.age.seen.CompareAndSwap(seen, seq); {
		seen = c.age.seen.Load()
	}
	return incarnation, seq, seq < before, nil
}

// stamped is the highest number that an incarnation left outside its database.
func (c *control) stamped(ctx context.Context, incarnation string) (int64, error) {
	highest, err := c.stamps.read(ctx, incarnation)
	if err != nil {
		return 0, err
	}
	objects, err := c.target.List(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the stamps on the objects: %w", err)
	}
	return max(highest, highestStamp(objects, incarnation, budget.MostGivenOut(c.clock()))), nil
}

// highestStamp is the highest number on an incarnation's objects that its
// ledger can have given out; whoever may change objects may write any other.
func highestStamp(objects []delivery.Status, incarnation string, most int64) int64 {
	var highest int64
	for _, st := range objects {
		if st.Ledger == incarnation && st.JournalSeq <= most {
			highest = max(highest, st.JournalSeq)
		}
	}
	return highest
}

// checkAge compares the ledger's journal with what was stamped. One that is
// older stands still unless it and the world agree anyway.
func (c *control) checkAge(ctx context.Context) error {
	c.age.Lock()
	defer c.age.Unlock()
	return c.checkAgeLocked(ctx)
}

func (c *control) checkAgeLocked(ctx context.Context) error {
	// Whose models were taken over is not to go on, whatever the ages say.
	if err := c.stillHome(ctx); err != nil {
		return err
	}
	incarnation, _, err := c.ledger.Identity(ctx)
	if err != nil {
		return fmt.Errorf("read the ledger's identity: %w", err)
	}
	stamped, err := c.stamped(ctx, incarnation)
	if err != nil {
		return err
	}
	stamped = max(stamped, c.age.seen.Load())
	// The journal is read after the stamps: others go on while this process
	// looks, and each number was in the journal before it was stamped.
	now, seq, _, err := c.identify(ctx)
	if err != nil {
		return fmt.Errorf("read the ledger's journal number: %w", err)
	}
	if now != incarnation {
		return fmt.Errorf("another ledger (%s) took the place of %s while it was compared; it is compared again", now, incarnation)
	}
	// Once it was older, only agreement or an admin ends that: whatever was
	// journaled since does not make it the newest.
	if seq >= stamped && !c.age.older {
		c.goOn(ctx)
		return nil
	}
	found, err := c.reconcile.Compare(ctx)
	if err != nil {
		return fmt.Errorf("compare an older ledger with the objects: %w", err)
	}
	c.age.seq, c.age.stamped, c.age.found = seq, stamped, found
	if len(found) == 0 {
		if err := c.ledger.LiftJournal(ctx, max(seq, stamped)); err != nil {
			return err
		}
		c.log.Info("the ledger is older than what was delivered, but nothing differs: it goes on", "journal", seq, "stamped", stamped)
		c.goOn(ctx)
		return nil
	}
	c.age.older = true
	why, details := c.olderWhy(), delivery.Few(found)
	c.age.details.Store(&details)
	if c.doubt.Halted() != why {
		c.log.Error("the ledger is older than what was delivered", "why", why)
		for _, d := range found {
			c.log.Warn("older ledger and world differ", "tenant", d.Ref.Tenant, "id", d.Ref.ID, "object", d.Object.Name, "uid", d.Object.UID, "note", d.Note)
		}
	}
	c.doubt.Halt(why)
	c.health.report(ctx, "restore", c.stillStanding())
	return nil
}

// goOn ends a standstill, if there is one.
func (c *control) goOn(ctx context.Context) {
	c.age.found, c.age.older = nil, false
	c.age.details.Store(nil)
	c.doubt.Resume()
	c.health.report(ctx, "restore", nil)
	c.moved.ring()
}

func (c *control) stillStanding() error {
	if why := c.doubt.Halted(); why != "" {
		return standstill(why)
	}
	return nil
}

// standstill is why nothing is admitted, delivered or credited.
type standstill string

func (s standstill) Error() string { return string(s) }

// olderWhy is for everybody: it has figures and names nobody's requests.
func (c *control) olderWhy() string {
	return fmt.Sprintf("this ledger is older than what was delivered: its journal ends at %d, and %d was stamped at the latest delivery. "+
		"Ledger and objects differ in %d places (an admin sees which: `modeldock ledger verify`). Nothing is admitted, delivered or credited. "+
		"Stop ModelDock and put the newer database back, or run `modeldock ledger import --accept-older`: it takes this database as the truth and deletes %d objects with their processes",
		c.age.seq, c.age.stamped, len(c.age.found), delivery.CountDrops(c.age.found))
}

// compareAgain looks whether a ledger that stands still may go on, and
// whether another process has imported another one into this database.
func (c *control) compareAgain(ctx context.Context) error {
	if !c.age.TryLock() {
		return nil // somebody decides right now
	}
	defer c.age.Unlock()
	incarnation, back, err := c.reachLedger(ctx)
	if err != nil {
		return err
	}
	if err := c.stillHome(ctx); err != nil {
		return err
	}
	if incarnation != c.age.incarnation {
		c.log.Info("another process has imported a ledger into this database", "before", c.age.incarnation, "now", incarnation)
		c.doubt.Halt("another process has imported a ledger; this takes moments")
		c.adoptAccounts(incarnation)
		return c.checkAgeLocked(ctx)
	}
	if c.doubt.Halted() == "" && !back {
		return nil
	}
	return c.checkAgeLocked(ctx)
}

// stillHome asks whether the models are still this process's to run.
func (c *control) stillHome(ctx context.Context) error {
	if c.atHome == nil {
		return nil
	}
	return c.atHome(ctx)
}

// reachLedger identifies the ledger, and tells the health of it: this is asked
// often, and so an outage shows soon.
func (c *control) reachLedger(ctx context.Context) (incarnation string, back bool, err error) {
	soon, cancel := context.WithTimeout(ctx, ledgerWait)
	defer cancel()
	if incarnation, _, back, err = c.identify(soon); err != nil {
		err = fmt.Errorf("the ledger does not answer: %w", err)
	}
	c.health.report(ctx, "ledger", err)
	return incarnation, back, err
}

// tellOthers says whose stamps lie in the data directory beside the ledger's own.
func (p *platform) tellOthers(incarnation string) {
	for _, other := range p.files.others(incarnation) {
		p.log.Warn("another ledger delivered from this data directory; its objects are not this ledger's and are left alone",
			"this", incarnation, "other", other, "journal", p.files.of(other))
	}
}

// Standstill is why nothing is admitted, delivered or credited, or empty.
func (r restorer) Standstill() string { return r.c.doubt.Halted() }

// Differences names the first differences of an older ledger and the world.
func (r restorer) Differences() string {
	if details := r.c.age.details.Load(); details != nil {
		return *details
	}
	return ""
}

// AcceptOlder takes the ledger as it is for the truth.
func (r restorer) AcceptOlder(ctx context.Context, who, why string) (api.Accepted, error) {
	c := r.c
	c.age.Lock()
	defer c.age.Unlock()
	var out api.Accepted
	if err := c.checkAgeLocked(ctx); err != nil {
		return out, err
	}
	if c.doubt.Halted() == "" {
		return out, api.Conflict("the ledger is not older than what was delivered, or nothing differs: there is nothing to accept, and it goes on by itself")
	}
	found, err := c.reconcile.Accept(ctx, func(d delivery.Difference) error {
		return c.ledger.AppendAudit(ctx, budget.AuditEntry{
			Who: who, When: c.clock(), Why: why, Result: "deleted: " + d.Note,
			What: fmt.Sprintf("accept an older ledger: object %s (uid %s) of request %s of tenant %s", d.Object.Name, d.Object.UID, d.Ref.ID, d.Ref.Tenant),
		})
	})
	if err != nil {
		return out, fmt.Errorf("accept the older ledger (it still stands still; the same call goes on where this one ended): %w", err)
	}
	if err := c.ledger.LiftJournal(ctx, max(c.age.seq, c.age.stamped)); err != nil {
		return out, err
	}
	if out.JournalSeq, err = c.stampNow(ctx); err != nil {
		return out, err
	}
	out.Differences = found
	c.log.Info("an older ledger was accepted", "who", who, "differences", len(found), "journal", out.JournalSeq)
	c.goOn(ctx)
	return out, nil
}
