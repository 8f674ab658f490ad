//go:build mariadb

package sqlledger_test

import (
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
)

// TestMySQLHearsOfOthers: a change made by one process is heard of by the
// other one, which then has it to read, and by nobody twice.
func TestMySQLHearsOfOthers(t *testing.T) {
	t.Parallel()
	s, name := database(t)
	heard := make(chan budget.Change, 100)
	listener := openMySQLAt(t, s.DSN(name), sqlledger.Options{OnChange: func(c budget.Change) { heard <- c }})
	t.Cleanup(func() { must(t, listener.Close()) })
	awaitNews := func(of string) {
		t.Helper()
		select {
		case c := <-heard:
			if c.Topic != budget.TopicElsewhere {
				t.Fatalf("of %s it heard %+v", of, c)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("nothing was heard of %s", of)
		}
	}
	other := openMySQLAt(t, s.DSN(name), sqlledger.Options{})
	must(t, second(other.SetPool(t.Context(), "default", 8)))
	awaitNews("a pool")
	if pools, err := listener.Pools(t.Context()); err != nil || len(pools) != 1 {
		t.Fatalf("after the news: %v, %v", pools, err)
	}
	must(t, second(other.SetQuota(t.Context(), "team-a", 8)))
	awaitNews("a quota")
	must(t, second(other.Submit(t.Context(), request("team-a", "x", 1))))
	awaitNews("a submit")
	must(t, second(other.Admit(t.Context(), 0)))
	awaitNews("an admission")
	// Looking for work is no news.
	for range 5 {
		must(t, second(other.Expire(t.Context())))
		must(t, second(other.Admit(t.Context(), 0)))
	}
	must(t, second(other.SetQuota(t.Context(), "team-b", 8)))
	must(t, other.Close()) // its numbers go with it, perhaps before they were read
	awaitNews("a change right before the end")
	must(t, second(listener.SetQuota(t.Context(), "team-c", 8)))
	if c := <-heard; c.Topic == budget.TopicElsewhere { // one more for the numbers that went
		c = <-heard
		if c.Topic != "quota" || c.Ref.Tenant != "team-c" {
			t.Fatalf("its own change is %+v", c)
		}
	}
}

// TestMySQLHasOneHome: the place where models run is bound once.
func TestMySQLHasOneHome(t *testing.T) {
	t.Parallel()
	_, both := replicas(t)
	for i, place := range []string{"first", "second"} {
		if home, err := both[i].Home(t.Context(), place, false); err != nil || home != "first" {
			t.Fatalf("%s is answered %q, %v", place, home, err)
		}
	}
	if home, err := both[1].Home(t.Context(), "second", true); err != nil || home != "second" {
		t.Fatalf("moved to %q, %v", home, err)
	}
	if home, err := both[0].Home(t.Context(), "first", false); err != nil || home != "second" {
		t.Fatalf("the old place is answered %q, %v", home, err)
	}
}
