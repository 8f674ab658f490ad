//go:build mariadb

package sqlledger_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
)

// replicas opens one database twice, as two processes would have it.
func replicas(t *testing.T) (dsn string, both [2]*sqlledger.Ledger) {
	t.Helper()
	s, name := database(t)
	for i := range both {
		both[i] = openMySQLAt(t, s.DSN(name), sqlledger.Options{})
		t.Cleanup(func() { must(t, both[i].Close()) })
	}
	return s.DSN(name), both
}

// sampled verifies on both replicas again and again while work runs.
func sampled(t *testing.T, both [2]*sqlledger.Ledger, work func()) {
	t.Helper()
	done := make(chan struct{})
	var samplers sync.WaitGroup
	for _, l := range both {
		samplers.Go(func() {
			for {
				report, err := l.Verify(context.Background())
				if err != nil || !report.Clean() {
					t.Errorf("during the run: %v, %+v", err, report.Violations)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	work()
	close(done)
	samplers.Wait()
}

// TestMySQLTwoReplicas: both submit, admit, deliver and credit the same
// requests at once. Neither knows of the other.
func TestMySQLTwoReplicas(t *testing.T) {
	t.Parallel()
	_, both := replicas(t)
	must(t, second(both[0].SetPool(t.Context(), "default", 8)))
	must(t, second(both[1].SetQuota(t.Context(), "team-a", 10)))
	must(t, second(both[1].SetQuota(t.Context(), "team-b", 3)))
	sampled(t, both, func() {
		var all sync.WaitGroup
		for i, l := range both {
			all.Go(func() { live(t, l, fmt.Sprint("relay-", i)) })
		}
		all.Wait()
	})
	for _, l := range both {
		rows, err := l.List(t.Context(), budget.Filter{State: budget.Reserved})
		must(t, err)
		if len(rows) != 8 || !verify(t, l).Clean() {
			t.Fatalf("%d reserved of 8 slots, %+v", len(rows), verify(t, l).Violations)
		}
	}
}

// TestMySQLFiftyIdenticalSubmits is C013: one row, fifty equal answers.
func TestMySQLFiftyIdenticalSubmits(t *testing.T) {
	t.Parallel()
	_, both := replicas(t)
	must(t, second(both[0].SetPool(t.Context(), "default", 8)))
	answers, errs := make([]budget.Reservation, 50), make([]error, 50)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i], errs[i] = both[i%2].Submit(context.Background(), request("team-a", "race", 3)) })
	}
	all.Wait()
	must(t, errors.Join(errs...))
	for _, a := range answers {
		if a.Seq != answers[0].Seq || !a.CreatedAt.Equal(answers[0].CreatedAt) || a.Cost != 3 {
			t.Fatalf("answers differ: %+v and %+v", answers[0], a)
		}
	}
	must(t, second(both[0].SetQuota(t.Context(), "team-a", 9)))
	for _, l := range both {
		must(t, second(l.Admit(t.Context(), 0)))
	}
	rows, err := both[1].List(t.Context(), budget.Filter{})
	must(t, err)
	if len(rows) != 1 || rows[0].Submits != 50 || rows[0].Held != 3 {
		t.Fatalf("rows are %+v", rows)
	}
	tenant, err := both[0].Tenant(t.Context(), "team-a")
	must(t, err)
	intents, err := both[0].Intents(t.Context(), rows[0].Ref)
	must(t, err)
	if tenant.Used != 3 || len(intents) != 1 {
		t.Fatalf("used is %d, with %d intents", tenant.Used, len(intents))
	}
}

// TestMySQLNoOverCommit is C019: forty requests race for ten slots through
// two replicas with an admitter each.
func TestMySQLNoOverCommit(t *testing.T) {
	t.Parallel()
	_, both := replicas(t)
	must(t, second(both[0].SetPool(t.Context(), "default", 30)))
	must(t, second(both[0].SetQuota(t.Context(), "team-a", 10)))
	must(t, second(both[0].SetQuota(t.Context(), "team-b", 10)))
	sampled(t, both, func() {
		var all sync.WaitGroup
		for i := range 80 {
			all.Go(func() {
				l, tenant, cost := both[i%2], "team-a", int64(1)
				if i >= 40 {
					tenant, cost = "team-b", 3
				}
				_, err := l.Submit(context.Background(), request(tenant, fmt.Sprint("r", i), cost))
				_, admit := l.Admit(context.Background(), 0)
				if err := errors.Join(err, admit); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
	for tenant, want := range map[string]int{"team-a": 10, "team-b": 3} {
		rows, err := both[0].List(t.Context(), budget.Filter{Tenant: tenant, State: budget.Reserved})
		must(t, err)
		if len(rows) != want {
			t.Errorf("%d of %s are reserved, want %d", len(rows), tenant, want)
		}
	}
}

// TestMySQLRelaysShareNothing: two relays claim at once; no intent is leased twice.
func TestMySQLRelaysShareNothing(t *testing.T) {
	t.Parallel()
	_, both := replicas(t)
	must(t, second(both[0].SetPool(t.Context(), "default", 100)))
	must(t, second(both[0].SetQuota(t.Context(), "team-a", 100)))
	for i := range 60 {
		must(t, second(both[0].Submit(t.Context(), request("team-a", fmt.Sprint("r", i), 1))))
	}
	must(t, second(both[1].Admit(t.Context(), 0)))
	var mu sync.Mutex
	claimed := map[int64]string{}
	var all sync.WaitGroup
	for i, l := range both {
		owner := fmt.Sprint("relay-", i)
		all.Go(func() {
			for range 20 {
				got, err := l.Claim(context.Background(), owner, 4, time.Minute)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				for _, in := range got {
					if other, twice := claimed[in.Seq]; twice {
						t.Errorf("intent %d is leased by %s and %s", in.Seq, other, owner)
					}
					claimed[in.Seq] = owner
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(claimed) != 60 {
		t.Fatalf("%d of 60 intents were claimed", len(claimed))
	}
}

// TestMySQLCapsChangedInSQLCountAtOnce is C028: nothing about quotas is remembered.
func TestMySQLCapsChangedInSQLCountAtOnce(t *testing.T) {
	t.Parallel()
	dsn, both := replicas(t)
	must(t, second(both[0].SetPool(t.Context(), "default", 1)))
	must(t, second(both[0].SetQuota(t.Context(), "team-a", 0)))
	must(t, second(both[0].Submit(t.Context(), request("team-a", "one", 1))))
	must(t, second(both[0].Submit(t.Context(), request("team-a", "two", 1))))
	db := directly(t, dsn)
	for _, change := range []string{`UPDATE tenant_quota SET cap = 2`, `UPDATE gpu_pool SET cap = 2`} {
		_, err := db.Exec(change)
		must(t, err)
		got, err := both[1].Admit(t.Context(), 0)
		must(t, err)
		if len(got) != 1 {
			t.Fatalf("after %s %d were admitted, want 1", change, len(got))
		}
	}
}
