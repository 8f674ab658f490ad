package sqlledger_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
)

// TestTwoLedgersOnOneFile: two openings of one database, as two processes
// would have them, submit, admit, deliver and credit the same requests at
// once. Neither knows of the other; the database alone keeps them apart.
func TestTwoLedgersOnOneFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	both := [2]*sqlledger.Ledger{openAt(t, path, sqlledger.Options{}), openAt(t, path, sqlledger.Options{})}
	must(t, second(both[0].SetPool(t.Context(), "default", 8)))
	must(t, second(both[1].SetQuota(t.Context(), "team-a", 10)))
	must(t, second(both[1].SetQuota(t.Context(), "team-b", 3)))

	var all sync.WaitGroup
	for i, l := range both {
		all.Go(func() { live(t, l, fmt.Sprint("relay-", i)) })
	}
	all.Wait()

	for _, l := range both {
		rows, err := l.List(t.Context(), budget.Filter{State: budget.Reserved})
		must(t, err)
		if len(rows) != 8 || !verify(t, l).Clean() {
			t.Fatalf("%d reserved of 8 slots, %+v", len(rows), verify(t, l).Violations)
		}
		must(t, l.Close())
	}
}

// live works through twenty requests, the same that the other ledger works
// on; the first six are released again.
func live(t *testing.T, l *sqlledger.Ledger, owner string) {
	ctx := t.Context()
	for i := range 20 {
		s := request([]string{"team-a", "team-b"}[i%2], fmt.Sprint("r", i), 1)
		if _, err := l.Submit(ctx, s); err != nil {
			t.Errorf("submit: %v", err)
		}
		if _, err := l.Admit(ctx, 0); err != nil {
			t.Errorf("admit: %v", err)
		}
		if i < 6 {
			if _, err := l.RequestRelease(ctx, s.Ref); err != nil {
				t.Errorf("release: %v", err)
			}
			if _, err := l.Credit(ctx, s.Ref, true); err != nil {
				t.Errorf("credit: %v", err)
			}
		}
		claimed, err := l.Claim(ctx, owner, 5, time.Minute)
		if err != nil {
			t.Errorf("claim: %v", err)
		}
		for _, in := range claimed {
			if in.Op == budget.Delete {
				err = l.DeleteDelivered(ctx, in)
			} else {
				err = l.Delivered(ctx, in, budget.Object{Namespace: "models", Name: in.Tenant + in.ID, UID: in.Tenant + in.ID})
			}
			if err != nil && !isReleased(err) {
				t.Errorf("deliver: %v", err)
			}
		}
	}
	if _, err := l.Admit(ctx, 0); err != nil {
		t.Errorf("admit: %v", err)
	}
}

func isReleased(err error) bool { return errors.Is(err, budget.ErrReleaseRequested) }
