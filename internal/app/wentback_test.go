package app

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"modeldock.io/internal/budget/sqlledger"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/remote"
)

// goingOn is a ledger with which others go on.
type goingOn struct {
	*sqlledger.Ledger
	seq    int64  // how long its journal is
	behind func() // done once, after the journal was read and before its reader hears of it
}

func (g *goingOn) Identity(ctx context.Context) (string, int64, error) {
	incarnation, _, err := g.Ledger.Identity(ctx)
	seq := g.seq
	if behind := g.behind; behind != nil {
		g.behind = nil
		behind()
	}
	return incarnation, seq, err
}

// noObjects is a target that has none.
type noObjects struct{ remote.Served }

func (noObjects) List(context.Context) ([]delivery.Status, error) { return nil, nil }

// aged is a control over a ledger that says how long its journal is.
func aged(t *testing.T) (*control, *goingOn) {
	t.Helper()
	stamps, err := openStamps(openDir(t))
	if err != nil {
		t.Fatal(err)
	}
	ledger := &goingOn{Ledger: openLedger(t, t.TempDir())}
	c := &control{ledger: ledger, target: noObjects{}, stamps: stamps, clock: time.Now, log: slog.New(slog.DiscardHandler), health: newHealth(time.Now)}
	c.reconcile = delivery.NewReconciler(delivery.ReconcilerConfig{Ledger: ledger, Target: c.target, Logger: c.log})
	return c, ledger
}

// A journal that is shorter than it was read before is never believed again
// until somebody compared it; a longer one is what is known from then on.
func TestJournalThatWentBack(t *testing.T) {
	t.Parallel()
	c, ledger := aged(t)
	for _, step := range []struct {
		seq  int64
		back bool
	}{{1, false}, {5, false}, {5, false}, {9, false}, {8, true}, {5, true}, {9, false}, {12, false}, {11, true}} {
		ledger.seq = step.seq
		if _, _, back, err := c.identify(t.Context()); err != nil || back != step.back {
			t.Errorf("journal at %d after %d: went back %v, want %v; %v", step.seq, c.age.seen.Load(), back, step.back, err)
		}
	}
}

// Who reads the journal is overtaken by somebody who reads it later and is done
// sooner: that is no older ledger.
func TestJournalThatGoesOnWhileItIsRead(t *testing.T) {
	t.Parallel()
	c, ledger := aged(t)
	ledger.seq = 10
	ledger.behind = func() {
		ledger.seq = 12
		if _, err := c.stampNow(t.Context()); err != nil {
			t.Error(err)
		}
		ledger.seq = 10
	}
	if _, seq, back, err := c.identify(t.Context()); seq != 10 || back || err != nil {
		t.Errorf("the journal at %d went back: %v, %v", seq, back, err)
	}
}

// While an age is looked at, others deliver and stamp: that is no older ledger,
// although what is on its way to the objects differs from them.
func TestAgeWhileOthersDeliver(t *testing.T) {
	t.Parallel()
	c, ledger := aged(t)
	if _, err := ledger.SetPool(t.Context(), "default", 8); err != nil {
		t.Fatal(err)
	}
	if _, err := ledger.SetQuota(t.Context(), "team-a", 1); err != nil {
		t.Fatal(err)
	}
	submit(t, ledger, "on-its-way")
	if _, err := ledger.Admit(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	delivered(t, ledger)
	incarnation, _, err := ledger.Ledger.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ledger.seq = 10
	ledger.behind = func() {
		ledger.seq = 12
		if err := c.stamps.raise(t.Context(), incarnation, 12); err != nil {
			t.Error(err)
		}
	}
	if err := c.checkAge(t.Context()); err != nil || c.doubt.Halted() != "" {
		t.Errorf("it stands still: %s; %v", c.doubt.Halted(), err)
	}
	ledger.seq = 11
	if err := c.checkAge(t.Context()); err != nil || c.doubt.Halted() == "" {
		t.Errorf("an older ledger goes on: %v", err)
	}
}
