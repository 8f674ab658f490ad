package sqlledger_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
)

// Many first readers at once used to wait for each other in a circle: each
// held a connection and asked for a second one to compile its statement on.
func TestManyFirstReadersDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	l, err := sqlledger.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), sqlledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	var readers sync.WaitGroup
	for range 64 {
		readers.Add(1)
		go func() {
			defer readers.Done()
			if _, err := l.Key(t.Context(), "nobody"); !errors.Is(err, budget.ErrNotFound) {
				t.Errorf("Key: %v, want ErrNotFound", err)
			}
			if _, err := l.Tenant(t.Context(), "nobody"); !errors.Is(err, budget.ErrNotFound) {
				t.Errorf("Tenant: %v, want ErrNotFound", err)
			}
			if _, err := l.Pools(t.Context()); err != nil {
				t.Errorf("Pools: %v", err)
			}
		}()
	}
	readers.Wait()
}

// Callers that leave in the midst of their reads neither use connections up
// nor leave an old state of the ledger behind for those who come later.
func TestReadersThatLeaveDisturbNobody(t *testing.T) {
	t.Parallel()
	l := openAt(t, filepath.Join(t.TempDir(), "ledger.db"), sqlledger.Options{})
	defer func() { must(t, l.Close()) }()
	readersLeave(t, l)
}

// readersLeave interrupts many reads at whatever point they have reached.
func readersLeave(t *testing.T, l *sqlledger.Ledger) {
	t.Helper()
	tell(t, l)
	var readers sync.WaitGroup
	for i := range 64 {
		readers.Go(func() {
			for range 10 {
				ctx, leave := context.WithCancel(t.Context())
				go leave()
				read := func() error { return second(l.List(ctx, budget.Filter{})) }
				switch i % 3 {
				case 1:
					read = func() error { return second(l.LiveBindings(ctx)) }
				case 2:
					read = func() error { return second(l.Verify(ctx)) } // several statements
				}
				if err := read(); err != nil && !errors.Is(err, budget.ErrUnavailable) {
					t.Errorf("an interrupted read: %v", err)
				}
				leave()
			}
		})
	}
	readers.Wait()
	for limit := range int64(3) {
		must(t, second(l.SetQuota(t.Context(), "team-a", 100+limit)))
		for range 32 {
			readers.Go(func() {
				tenant, err := l.Tenant(t.Context(), "team-a")
				if err != nil || tenant.Cap != 100+limit {
					t.Errorf("after interrupted reads the cap is %d, want %d (%v)", tenant.Cap, 100+limit, err)
				}
			})
		}
		readers.Wait()
	}
}
