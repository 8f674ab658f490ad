package sqlledger_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
)

// gate stands before the writer's statements.
type gate struct {
	mu         sync.Mutex
	statements []string
	on         func(statement string) error
}

func (g *gate) before(statement string) error {
	g.mu.Lock()
	g.statements = append(g.statements, statement)
	on := g.on
	g.mu.Unlock()
	if on != nil {
		return on(statement)
	}
	return nil
}

func (g *gate) set(on func(statement string) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.on, g.statements = on, nil
}

func (g *gate) count(prefix string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, s := range g.statements {
		if strings.HasPrefix(s, prefix) {
			n++
		}
	}
	return n
}

func gated(t *testing.T) (*sqlledger.Ledger, *gate) {
	t.Helper()
	g := &gate{}
	l := openAt(t, filepath.Join(t.TempDir(), "ledger.db"), sqlledger.Options{BeforeStatement: g.before})
	t.Cleanup(func() { must(t, l.Close()) })
	must(t, second(l.SetPool(t.Context(), "default", 1000)))
	must(t, second(l.SetQuota(t.Context(), "team-a", 1000)))
	return l, g
}

// hold lets one operation into the writer and keeps it before its COMMIT
// until the returned function is called, so that others gather behind it.
func hold(t *testing.T, l *sqlledger.Ledger, g *gate, then func(statement string) error) (release func()) {
	t.Helper()
	reached, open := make(chan struct{}), make(chan struct{})
	var once sync.Once
	g.set(func(statement string) error {
		if statement == "COMMIT" {
			once.Do(func() { close(reached); <-open; g.set(then) })
		}
		return nil
	})
	done := make(chan error, 1)
	go func() { done <- second(l.SetQuota(context.Background(), "team-a", 999)) }()
	<-reached
	return func() {
		close(open)
		must(t, <-done)
	}
}

// submitMany starts n submits and returns once all of them wait for the writer.
func submitMany(l *sqlledger.Ledger, n int) (wait func() []error) {
	errs := make([]error, n)
	var started, all sync.WaitGroup
	for i := range n {
		started.Add(1)
		all.Go(func() {
			started.Done()
			_, errs[i] = l.Submit(context.Background(), request("team-a", fmt.Sprint("r", i), 1))
		})
	}
	started.Wait()
	return func() []error { all.Wait(); return errs }
}

func TestSubmitsShareCommits(t *testing.T) {
	t.Parallel()
	l, g := gated(t)
	release := hold(t, l, g, nil)
	wait := submitMany(l, 64)
	waitUntil(t, "64 submits queue", func() bool { return l.Queued() == 64 })
	release()
	for _, err := range wait() {
		must(t, err)
	}
	if n := g.count("COMMIT"); n != 1 {
		t.Fatalf("64 submits that had gathered took %d commits", n)
	}
	if n := g.count("SAVEPOINT"); n != 64 {
		t.Fatalf("64 submits took %d savepoints", n)
	}
}

// TestAFailureFailsTheGroup: an error of the store in the midst of a group
// leaves nothing of it, also not of those before and behind.
func TestAFailureFailsTheGroup(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"SAVEPOINT", "-- name: InsertReservation", "RELEASE", "COMMIT"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			l, g := gated(t)
			broken := errors.New("disk I/O error")
			var seen atomic.Int64
			release := hold(t, l, g, func(statement string) error {
				if strings.HasPrefix(statement, at) && (at == "COMMIT" || seen.Add(1) == 5) {
					g.set(nil)
					return broken
				}
				return nil
			})
			wait := submitMany(l, 10)
			waitUntil(t, "10 submits queue", func() bool { return l.Queued() == 10 })
			release()
			for _, err := range wait() {
				if !errors.Is(err, budget.ErrUnavailable) || !errors.Is(err, broken) {
					t.Fatalf("a submit of the failed group was answered %v", err)
				}
			}
			rows, err := l.List(t.Context(), budget.Filter{})
			must(t, err)
			if len(rows) != 0 {
				t.Fatalf("%d rows of the failed group are stored", len(rows))
			}
			// The next group works again, on a new connection.
			for i := range 10 {
				must(t, second(l.Submit(t.Context(), request("team-a", fmt.Sprint("r", i), 1))))
			}
		})
	}
}

// TestARefusalIsAlone: what the rules or the schema refuse undoes one
// operation, all of it, and none of its neighbours.
func TestARefusalIsAlone(t *testing.T) {
	t.Parallel()
	l, g := gated(t)
	release := hold(t, l, g, nil)
	wait := submitMany(l, 20)
	conflicting := request("team-a", "r7", 2)
	unknown := request("team-new", "x", 1)
	unknown.Pool = "nowhere"
	refused := make(chan error, 2)
	for _, s := range []budget.Submission{conflicting, unknown} {
		go func() { refused <- second(l.Submit(context.Background(), s)) }()
	}
	waitUntil(t, "22 submits queue", func() bool { return l.Queued() == 22 })
	release()
	failed := 0
	for _, err := range wait() {
		var conflict *budget.ConflictError
		if errors.As(err, &conflict) {
			failed++ // r7 itself, if the other r7 was queued before it
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := <-refused; err != nil {
			failed++
		}
	}
	if failed != 2 {
		t.Fatalf("%d submits were refused, want the later r7 and the unknown pool", failed)
	}
	if _, err := l.Tenant(t.Context(), "team-new"); !errors.Is(err, budget.ErrNotFound) {
		t.Fatalf("a refused submit left its tenant behind: %v", err)
	}
	if n := g.count("COMMIT"); n != 1 {
		t.Fatalf("%d commits, want 1", n)
	}
}

// TestCallersThatLeaveHarmNobody is the trap of group commit: a cancelled
// statement would roll the whole group back in silence.
func TestCallersThatLeaveHarmNobody(t *testing.T) {
	t.Parallel()
	l, _ := gated(t)
	var all sync.WaitGroup
	var acknowledged sync.Map
	for w := range 16 {
		all.Go(func() {
			for i := range 25 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(w%8)*100*time.Microsecond+time.Microsecond)
				if w%2 == 0 {
					ctx, cancel = context.WithCancel(context.Background())
				}
				id := fmt.Sprintf("w%d-%d", w, i)
				_, err := l.Submit(ctx, request("team-a", id, 1))
				cancel()
				switch {
				case err == nil:
					acknowledged.Store(id, true)
				case w%2 == 0 || !errors.Is(err, budget.ErrUnavailable):
					t.Errorf("%s: %v", id, err)
				}
			}
		})
	}
	all.Wait()
	acknowledged.Range(func(id, _ any) bool {
		if _, err := l.Get(t.Context(), budget.Ref{Tenant: "team-a", ID: id.(string)}); err != nil {
			t.Errorf("%s was acknowledged: %v", id, err)
		}
		return true
	})
	if report := verify(t, l); !report.Clean() {
		t.Fatalf("%+v", report.Violations)
	}
}

// TestReadersDoNotWait: reads answer from the last commit while a write is under way.
func TestReadersDoNotWait(t *testing.T) {
	t.Parallel()
	l, g := gated(t)
	must(t, second(l.Submit(t.Context(), request("team-a", "x", 1))))
	release := hold(t, l, g, nil)
	must(t, second(l.Get(t.Context(), budget.Ref{Tenant: "team-a", ID: "x"})))
	must(t, second(l.Standing(t.Context(), budget.Ref{Tenant: "team-a", ID: "x"})))
	tenant, err := l.Tenant(t.Context(), "team-a")
	must(t, err)
	if tenant.Cap != 1000 || !verify(t, l).Clean() {
		t.Fatalf("cap is %d before the commit", tenant.Cap)
	}
	release()
	tenant, err = l.Tenant(t.Context(), "team-a")
	must(t, err)
	if tenant.Cap != 999 {
		t.Fatalf("cap is %d after the commit", tenant.Cap)
	}
}

func TestChangesAreToldAfterTheCommit(t *testing.T) {
	t.Parallel()
	told := make(chan budget.Change, 100)
	var l *sqlledger.Ledger
	path := filepath.Join(t.TempDir(), "ledger.db")
	l = openAt(t, path, sqlledger.Options{OnChange: func(c budget.Change) { told <- c }})
	defer func() { _ = l.Close() }()
	must(t, second(l.SetPool(t.Context(), "default", 10)))
	must(t, second(l.SetQuota(t.Context(), "team-a", 10)))
	must(t, second(l.Submit(t.Context(), request("team-a", "x", 1))))
	must(t, second(l.Admit(t.Context(), 0)))
	for _, want := range []budget.Change{
		{Topic: "quota", Ref: budget.Ref{ID: "default"}}, {Topic: "quota", Ref: budget.Ref{Tenant: "team-a"}},
		{Topic: "request", Ref: budget.Ref{Tenant: "team-a", ID: "x"}, Revision: 1},
		{Topic: "request", Ref: budget.Ref{Tenant: "team-a", ID: "x"}, Revision: 2},
		{Topic: "quota", Ref: budget.Ref{Tenant: "team-a"}}, {Topic: "quota", Ref: budget.Ref{ID: "default"}},
	} {
		if got := <-told; got != want {
			t.Fatalf("told %+v, want %+v", got, want)
		}
	}
	if err := second(l.Submit(t.Context(), request("team-a", "x", 2))); err == nil {
		t.Fatal("a changed payload was accepted")
	}
	must(t, l.Close())
	if len(told) != 0 {
		t.Fatalf("a refused operation told %+v", <-told)
	}
}

// waitUntil polls a condition that another goroutine brings about.
func waitUntil(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited 20 s until %s", what)
		}
	}
}
