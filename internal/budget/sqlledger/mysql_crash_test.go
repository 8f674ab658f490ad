//go:build mariadb

package sqlledger_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/ledgertest"
	"modeldock.io/internal/budget/sqlledger"
	"modeldock.io/internal/traffic"
	"modeldock.io/test/mariadb"
)

// TestMySQLStopAfterEveryStatement breaks the connection before every
// statement of a whole story in turn. Whatever the caller is told, the story
// told once more must end with one debit and one credit.
func TestMySQLStopAfterEveryStatement(t *testing.T) {
	t.Parallel()
	s, name := database(t)
	statements := 1
	for at := 0; at < statements; at++ {
		func() {
			clock := ledgertest.NewClock()
			count, hit := 0, false
			fault := errors.New("this process was stopped here")
			l := openMySQLAt(t, s.DSN(name), sqlledger.Options{Clock: clock.Now, BeforeStatement: func(string) error {
				if hit {
					return fault // nothing more comes from the dead
				}
				count++
				hit = count == at+1
				if hit {
					return fault
				}
				return nil
			}})
			begun(l)
			must(t, l.Close())
			if !hit {
				return // the story has fewer statements than that
			}
			statements = at + 2
			again := openMySQLAt(t, s.DSN(name), sqlledger.Options{Clock: clock.Now})
			if report := verify(t, again); !report.Clean() {
				t.Fatalf("stopped before statement %d: %+v", at, report.Violations)
			}
			clock.Advance(2 * time.Minute) // what was leased by the dead is due again
			story(t, again, clock)
			must(t, again.Close())
		}()
		forget(t, s.DSN(name))
	}
	if statements < 150 {
		t.Fatalf("only %d statements were reached", statements)
	}
	t.Logf("%d crash points", statements-1)
}

// begun tells the story as far as it goes.
func begun(l *sqlledger.Ledger) {
	for _, step := range steps(context.Background(), l, budget.Ref{Tenant: "team-a", ID: "x"}) {
		if step() != nil {
			return
		}
	}
}

// forget empties the ledger for the next round.
func forget(t *testing.T, dsn string) {
	t.Helper()
	db := directly(t, dsn)
	db.SetMaxOpenConns(1)
	for _, statement := range []string{
		`SET SESSION foreign_key_checks = 0`, `TRUNCATE binding`, `TRUNCATE outbox`, `TRUNCATE journal`, `TRUNCATE reservation`,
		`UPDATE tenant_quota SET used = 0`, `UPDATE gpu_pool SET used = 0`,
	} {
		_, err := db.Exec(statement)
		must(t, err)
	}
	must(t, db.Close())
}

const mysqlChildEnv = "MODELDOCK_LEDGERTEST_MYSQL_CHILD"

// TestMySQLKillLosesNothingAcknowledged kills a process with -9 in the middle
// of its writing, beside one that goes on: whatever it had acknowledged is
// there, and its locks hold nobody up.
func TestMySQLKillLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	s, name := database(t)
	l := openMySQLAt(t, s.DSN(name), sqlledger.Options{})
	defer func() { must(t, l.Close()) }()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMySQLChildWriter$", "-test.v")
	child.Env = append(os.Environ(), mysqlChildEnv+"="+s.DSN(name))
	out, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	acknowledged := map[string]bool{}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "ack "); ok {
			acknowledged[id] = true
		}
		if len(acknowledged) == 150 {
			must(t, child.Process.Kill()) // by its own pid; what is still in the pipe counts too
		}
	}
	_ = child.Wait() // it was killed
	if len(acknowledged) < 150 {
		t.Fatalf("the child acknowledged only %d submits", len(acknowledged))
	}
	for id := range acknowledged {
		must(t, second(l.Get(t.Context(), budget.Ref{Tenant: "team-a", ID: id})))
	}
	must(t, second(l.Admit(t.Context(), 0)))
	if report := verify(t, l); !report.Clean() {
		t.Fatalf("%+v", report.Violations)
	}
}

// TestMySQLChildWriter is the process that is killed; on its own it does nothing.
func TestMySQLChildWriter(t *testing.T) {
	dsn := os.Getenv(mysqlChildEnv)
	if dsn == "" {
		t.Log("runs as the child of TestMySQLKillLosesNothingAcknowledged")
		return
	}
	l := openMySQLAt(t, dsn, sqlledger.Options{})
	must(t, second(l.SetPool(t.Context(), "default", 1000)))
	must(t, second(l.SetQuota(t.Context(), "team-a", 1000)))
	for w := range 8 {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("w%d-%d", w, i)
				if _, err := l.Submit(context.Background(), request("team-a", id, 1)); err != nil {
					return
				}
				fmt.Printf("ack %s\n", id)
				_, _ = l.Admit(context.Background(), 10)
			}
		}()
	}
	select {}
}

// TestMySQLServerIsKilled kills the database's server with -9 under load and
// starts it again: the ledger goes on by itself and has lost nothing that it
// acknowledged.
func TestMySQLServerIsKilled(t *testing.T) {
	t.Parallel()
	s, err := mariadb.Start(t.Context(), "/dev/shm")
	must(t, err)
	t.Cleanup(func() { must(t, s.Stop()) })
	name, _, err := s.Create(t.Context())
	must(t, err)
	l := openMySQLAt(t, s.DSN(name), sqlledger.Options{})
	defer func() { must(t, l.Close()) }()
	must(t, second(l.SetPool(t.Context(), "default", 50)))
	must(t, second(l.SetQuota(t.Context(), "team-a", 1000)))
	var acknowledged sync.Map
	var n, stop atomic.Int64
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := 0; stop.Load() == 0; i++ {
				ref := budget.Ref{Tenant: "team-a", ID: fmt.Sprintf("w%d-%d", w, i)}
				if _, err := l.Submit(context.Background(), request(ref.Tenant, ref.ID, 1)); err == nil {
					acknowledged.Store(ref, true)
					n.Add(1)
				}
				_, _ = l.Admit(context.Background(), 10)
			}
		})
	}
	for _, at := range []int64{50, 150} {
		waitUntil(t, "submits are acknowledged", func() bool { return n.Load() >= at })
		must(t, s.Restart(t.Context()))
	}
	waitUntil(t, "submits are acknowledged again", func() bool { return n.Load() >= 250 })
	stop.Store(1)
	all.Wait()
	acknowledged.Range(func(ref, _ any) bool {
		if _, err := l.Get(context.Background(), ref.(budget.Ref)); err != nil {
			t.Errorf("%v was acknowledged: %v", ref, err)
		}
		return true
	})
	if report := verify(t, l); !report.Clean() {
		t.Fatalf("%+v", report.Violations)
	}
}

// TestMySQLKeepsEveryByte: evidence has what clients sent, text or not.
func TestMySQLKeepsEveryByte(t *testing.T) {
	t.Parallel()
	s, name := database(t)
	l := openMySQLAt(t, s.DSN(name), sqlledger.Options{})
	defer func() { must(t, l.Close()) }()
	for i, odd := range []string{"\xff\xfe broken", "a\x00b'\"\\%_;--", "naïve 模型 🚢", strings.Repeat("long ", 50_000)} {
		id := fmt.Sprint("i", i)
		must(t, l.PutInferences(t.Context(), []traffic.Inference{{RequestID: id, Tenant: "team-a", Owner: "team-a", Error: odd, ReceivedAt: time.Now()}}))
		got, err := l.Inference(t.Context(), id)
		must(t, err)
		if got.Error != odd {
			t.Errorf("%.20q came back as %.20q", odd, got.Error)
		}
	}
}
