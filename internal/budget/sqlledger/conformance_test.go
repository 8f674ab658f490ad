package sqlledger_test

import (
	"os"
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

// The comparisons open hundreds of ledgers and ask nothing about durability:
// they keep both sides in memory where the system has such a folder.

func openFast(t *testing.T, clock func() time.Time) budget.Ledger {
	t.Helper()
	return openAt(t, filepath.Join(fastDir(t), "ledger.db"), sqlledger.Options{Clock: clock})
}

func oracle(t *testing.T, clock func() time.Time) budget.Ledger {
	t.Helper()
	l, err := jsonledger.Open(filepath.Join(fastDir(t), "ledger.json"), jsonledger.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func fastDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "ledgertest-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestConformance(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, open)
}

func TestAgainstTheOracle(t *testing.T) {
	t.Parallel()
	ledgertest.Compare(t, openFast, oracle)
}

func TestQueueAgainstTheOracle(t *testing.T) {
	t.Parallel()
	ledgertest.CompareQueue(t, openFast, oracle)
}

func TestCopiesBetweenKinds(t *testing.T) {
	t.Parallel()
	ledgertest.RoundTrip(t, open, oracle)
}

func TestGrowthAgainstTheOracle(t *testing.T) {
	t.Parallel()
	ledgertest.CompareGrowth(t, openFast, oracle)
}
