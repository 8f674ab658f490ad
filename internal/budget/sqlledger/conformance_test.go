package sqlledger_test

import (
	"path/filepath"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/jsonledger"
	"modeldock.io/internal/budget/ledgertest"
	"modeldock.io/internal/budget/sqlledger"
)

func open(t *testing.T, clock func() time.Time) budget.Ledger {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "ledger.db"), sqlledger.Options{Clock: clock})
}

func openAt(t *testing.T, path string, opts sqlledger.Options) *sqlledger.Ledger {
	t.Helper()
	l, err := sqlledger.OpenSQLite(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func oracle(t *testing.T, clock func() time.Time) budget.Ledger {
	t.Helper()
	l, err := jsonledger.Open(filepath.Join(t.TempDir(), "ledger.json"), jsonledger.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestConformance(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, open)
}

func TestAgainstTheOracle(t *testing.T) {
	t.Parallel()
	ledgertest.Compare(t, open, oracle)
}

func TestQueueAgainstTheOracle(t *testing.T) {
	t.Parallel()
	ledgertest.CompareQueue(t, open, oracle)
}
