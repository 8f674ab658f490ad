package sqlledger_test

import (
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
