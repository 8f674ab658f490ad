package local

import (
	"io"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
	"modeldock.io/internal/delivery"
)

// The whole of account 2 over a real ledger: reserved, started, ready,
// released, gone, credited once; with a restart while it goes away.
func TestLedgerAndProcessesAgree(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	l, err := sqlledger.OpenSQLite(ctx, filepath.Join(t.TempDir(), "ledger.db"), sqlledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	instance, _, err := l.Identity(ctx)
	must(t, err)
	_, err = l.SetPool(ctx, budget.DefaultPool, 10)
	must(t, err)
	_, err = l.SetQuota(ctx, "team-a", 10)
	must(t, err)
	b := setup(t, func(c *Config) { c.Ledger = instance })
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	relay := func() *delivery.Relay {
		return delivery.NewRelay(delivery.RelayConfig{Outbox: l, Bindings: l, Target: b.target, Ledger: instance, Owner: "test", Logger: quiet})
	}
	settler := func() *delivery.Settler {
		return delivery.NewSettler(delivery.SettlerConfig{Ledger: l, Target: b.target, Instance: instance, Logger: quiet})
	}

	d := desired("team-a", "demo")
	_, err = l.Submit(ctx, budget.Submission{Ref: d.Ref, Cost: 7, Priority: 1, Pool: budget.DefaultPool, TTL: time.Hour, Model: d.Model})
	must(t, err)
	_, err = l.Admit(ctx, 0)
	must(t, err)
	_, err = relay().Round(ctx, 10)
	must(t, err)
	b.untilReady(d)
	_, err = settler().Round(ctx, 0)
	must(t, err)
	bound, err := l.Binding(ctx, d.Ref)
	must(t, err)
	if st := b.status(d); !bound.EverReady || bound.UID != st.Object.UID {
		t.Fatalf("binding %+v, object %+v", bound, st.Object)
	}
	reconciler := delivery.NewReconciler(delivery.ReconcilerConfig{Ledger: l, Target: b.target, Instance: instance, Logger: quiet})
	if s, err := reconciler.Round(ctx); err != nil || len(s.Steps) != 0 {
		t.Fatalf("ledger and machine differ: %+v %v", s, err)
	}

	_, err = l.RequestRelease(ctx, d.Ref)
	must(t, err)
	_, err = relay().Round(ctx, 10)
	must(t, err)
	b.stop(b.target) // a restart in the middle of going away
	b.start()
	eventually(t, func() bool {
		_, err := settler().Round(ctx, 0)
		must(t, err)
		r, err := l.Get(ctx, d.Ref)
		must(t, err)
		return r.State == budget.Released
	}, func() string { return "the slots never came back" })
	if left := family(t, b.target.runs.identity); len(left) != 0 {
		t.Fatalf("credited while %v still run", left)
	}
	journal, err := l.Journal(ctx, d.Ref)
	must(t, err)
	report, err := l.Verify(ctx)
	must(t, err)
	if len(journal) != 2 || journal[0].Slots != 7 || journal[1].Slots != -7 || !report.Clean() {
		t.Fatalf("journal %+v, report %+v", journal, report)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
