package jsonledger_test

import (
	"path/filepath"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/jsonledger"
	"modeldock.io/internal/budget/ledgertest"
)

func open(t *testing.T, clock func() time.Time) budget.Ledger {
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
