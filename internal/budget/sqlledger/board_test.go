package sqlledger_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
)

// However many callers from outside hold or wait for a reader, the product's
// own loops read.
func TestOwnReadsDoNotWaitForCallers(t *testing.T) {
	t.Parallel()
	l := openAt(t, filepath.Join(t.TempDir(), "ledger.db"), sqlledger.Options{})
	defer func() { must(t, l.Close()) }()
	release, err := l.HoldOutside(t.Context())
	must(t, err)
	caller, leave := context.WithCancel(budget.FromOutside(t.Context()))
	var waiting sync.WaitGroup
	for range 32 {
		waiting.Go(func() {
			if _, err := l.Pools(caller); !errors.Is(err, budget.ErrUnavailable) {
				t.Errorf("a caller beyond the bound: %v, want ErrUnavailable", err)
			}
		})
	}
	for range 8 {
		own, end := context.WithTimeout(t.Context(), 30*time.Second)
		if _, _, err := l.Identity(own); err != nil {
			t.Errorf("an own read: %v", err)
		}
		end()
	}
	leave()
	waiting.Wait()
	release()
	must(t, second(l.Pools(budget.FromOutside(t.Context()))))
}

// One walk along the queue answers every question until something changes,
// whoever changes it: this ledger, another program, or the time.
func TestOneWalkExplainsAllThatWait(t *testing.T) {
	t.Parallel()
	var skew atomic.Int64
	clock := func() time.Time { return keptAt().Add(time.Duration(skew.Load())) }
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := openAt(t, path, sqlledger.Options{Clock: clock})
	defer func() { must(t, l.Close()) }()
	must(t, second(l.SetPool(t.Context(), "default", 4)))
	must(t, second(l.SetQuota(t.Context(), "team-a", 0)))
	for i := range 20 {
		must(t, second(l.Submit(t.Context(), request("team-a", fmt.Sprintf("r%02d", i), 1))))
	}
	ref := budget.Ref{Tenant: "team-a", ID: "r07"}
	reason := func(want budget.Reason, walks int64) {
		t.Helper()
		for range 5 {
			st, err := l.Standing(t.Context(), ref)
			must(t, err)
			if st.Reason != want || st.Ahead != 7 && want != budget.TTLElapsed {
				t.Fatalf("the reason is %s with %d ahead, want %s with 7", st.Reason, st.Ahead, want)
			}
		}
		if got := l.Walks(); got != walks {
			t.Fatalf("%d walks explained it, want %d", got, walks)
		}
	}
	reason(budget.ExceedsQuota, 1)
	must(t, second(l.SetQuota(t.Context(), "team-a", 20)))
	reason(budget.PoolBlocked, 2)
	_, err := openDirectly(t, path).ExecContext(t.Context(), "UPDATE tenant_quota SET cap = 0 WHERE tenant = 'team-a'")
	must(t, err)
	reason(budget.ExceedsQuota, 3)
	skew.Store(int64(365 * 24 * time.Hour))
	reason(budget.TTLElapsed, 4)
	if _, err := l.Standing(t.Context(), budget.Ref{Tenant: "team-a", ID: "none"}); !errors.Is(err, budget.ErrNotFound) {
		t.Fatalf("an unknown request: %v, want ErrNotFound", err)
	}
}
