package sqlledger_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
)

const lockerEnv = "MODELDOCK_LEDGERTEST_LOCKER"

// TestASecondProcessOnlyDelays: twenty clients work while another process
// takes the write lock again and again; nobody is told of a busy database.
func TestASecondProcessOnlyDelays(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := openAt(t, path, sqlledger.Options{})
	defer func() { _ = l.Close() }()
	must(t, second(l.SetPool(t.Context(), "default", 5)))
	for c := range 20 {
		must(t, second(l.SetQuota(t.Context(), fmt.Sprint("team-", c), 1)))
	}
	locks, ended, stop := startLocker(t, path)
	var clients sync.WaitGroup
	for c := range 20 {
		clients.Go(func() {
			for i := 0; i < 3 || locks.Load() < 8; i++ {
				select {
				case <-ended:
					t.Error("the other process has ended by itself")
					return
				default:
				}
				work(t, l, request(fmt.Sprint("team-", c), fmt.Sprint("r", i), 1))
			}
		})
	}
	clients.Wait()
	stop()
	if report := verify(t, l); !report.Clean() {
		t.Fatalf("%+v", report.Violations)
	}
}

// work is one client's round: submit, read, admit and release.
func work(t *testing.T, l *sqlledger.Ledger, s budget.Submission) {
	if _, err := l.Submit(t.Context(), s); err != nil {
		t.Errorf("submit: %v", err)
	}
	if _, err := l.Get(t.Context(), s.Ref); err != nil {
		t.Errorf("get: %v", err)
	}
	if _, err := l.Admit(t.Context(), 0); err != nil {
		t.Errorf("admit: %v", err)
	}
	if _, err := l.RequestRelease(t.Context(), s.Ref); err != nil {
		t.Errorf("release: %v", err)
	}
	if _, err := l.Credit(t.Context(), s.Ref, true); err != nil {
		t.Errorf("credit: %v", err)
	}
}

// startLocker runs the other process and counts how often it held the lock.
func startLocker(t *testing.T, path string) (locks *atomic.Int64, ended chan struct{}, stop func()) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLockerProcess$", "-test.v")
	child.Env = append(os.Environ(), lockerEnv+"="+path)
	in, err := child.StdinPipe()
	must(t, err)
	out, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	locks, ended = &atomic.Int64{}, make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "locked") {
				locks.Add(1)
			}
		}
	}()
	waitUntil(t, "the other process holds the lock", func() bool { return locks.Load() > 0 })
	return locks, ended, func() {
		must(t, in.Close())
		<-ended
		must(t, child.Wait())
	}
}

// TestLockerProcess is the other process; on its own it does nothing.
func TestLockerProcess(t *testing.T) {
	path := os.Getenv(lockerEnv)
	if path == "" {
		t.Log("runs as the child of TestASecondProcessOnlyDelays")
		return
	}
	db := openDirectly(t, path)
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	for {
		tx, err := db.Begin()
		if err != nil && strings.Contains(err.Error(), "SQLITE_BUSY") {
			continue // a busy ledger may keep a polite stranger waiting for longer than its own limit
		}
		must(t, err)
		fmt.Println("locked")
		_, err = tx.Exec(`UPDATE gpu_pool SET cap = cap`)
		must(t, err)
		hold := time.After(20 * time.Millisecond)
		<-hold
		must(t, tx.Commit())
		select {
		case <-ended:
			return
		case <-time.After(80 * time.Millisecond):
		}
	}
}

// TestCapsChangedInSQLCountAtOnce: nothing about quotas is remembered.
func TestCapsChangedInSQLCountAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := openAt(t, path, sqlledger.Options{})
	defer func() { _ = l.Close() }()
	must(t, second(l.SetPool(t.Context(), "default", 1)))
	must(t, second(l.SetQuota(t.Context(), "team-a", 1)))
	for _, id := range []string{"one", "two", "three"} {
		must(t, second(l.Submit(t.Context(), request("team-a", id, 1))))
	}
	db := openDirectly(t, path)
	admitted := func(want int, reason budget.Reason) {
		t.Helper()
		got, err := l.Admit(t.Context(), 0)
		must(t, err)
		if len(got) != want {
			t.Fatalf("admitted %d, want %d", len(got), want)
		}
		s, err := l.Standing(t.Context(), budget.Ref{Tenant: "team-a", ID: "three"})
		must(t, err)
		if s.Reason != reason {
			t.Fatalf("three waits for %s (%s), want %s", s.Reason, s.Message, reason)
		}
	}
	admitted(1, budget.QuotaBlocked)
	_, err := db.Exec(`UPDATE tenant_quota SET cap = 3 WHERE tenant = 'team-a'`)
	must(t, err)
	admitted(0, budget.PoolBlocked)
	_, err = db.Exec(`UPDATE gpu_pool SET cap = 2`)
	must(t, err)
	admitted(1, budget.PoolBlocked)
	_, err = db.Exec(`UPDATE tenant_quota SET cap = 0 WHERE tenant = 'team-a'`)
	must(t, err)
	admitted(0, budget.ExceedsQuota)
}
