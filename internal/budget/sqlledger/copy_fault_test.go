package sqlledger_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/backup"
	"modeldock.io/internal/budget/ledgertest"
	"modeldock.io/internal/budget/sqlledger"
)

// An import that fails at any of its statements leaves the ledger as it was,
// and the same import succeeds afterwards.
func TestImportFailsWhole(t *testing.T) {
	t.Parallel()
	clock := ledgertest.NewClock()
	from := open(t, clock.Now)
	must(t, second(from.SetPool(t.Context(), budget.DefaultPool, 8)))
	ledgertest.Fill(t, from, clock)
	doc := ledgertest.Export(t, t.Context(), from)
	must(t, from.Close())
	reader := backup.NewReader(strings.NewReader(doc))
	head, err := reader.Head()
	must(t, err)

	broken := errors.New("the disk is gone")
	left := -1 // statements until the fault; below zero: none
	to := openAt(t, filepath.Join(fastDir(t), "ledger.db"), sqlledger.Options{Clock: clock.Now, BeforeStatement: func(string) error {
		if left--; left == 0 {
			return broken
		}
		return nil
	}})
	t.Cleanup(func() { must(t, to.Close()) })
	must(t, second(to.SetPool(t.Context(), "seeded", 3)))
	before := ledgertest.Export(t, t.Context(), to)
	faults := 0
	for at := 1; ; at++ {
		left = at
		err := to.Import(t.Context(), head, reader.Rows(), "")
		if err == nil {
			break
		}
		faults++
		left = -1
		if !errors.Is(err, budget.ErrUnavailable) {
			t.Fatalf("fault at statement %d: %v", at, err)
		}
		if after := ledgertest.Export(t, t.Context(), to); after != before {
			t.Fatalf("fault at statement %d: the ledger was changed", at)
		}
	}
	if faults < 40 {
		t.Errorf("only %d statements could fail", faults)
	}
	if got := ledgertest.Export(t, t.Context(), to); got != doc {
		t.Error("the import that succeeded at last is another ledger")
	}
}
