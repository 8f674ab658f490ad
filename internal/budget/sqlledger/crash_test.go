package sqlledger_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/ledgertest"
	"modeldock.io/internal/budget/sqlledger"
)

// TestCrashAfterEveryStatement keeps what a kill would leave on the disk
// before every statement of a whole story, and before every COMMIT also with
// a log that was cut in the middle of its last write. Each is opened again,
// must be clean, and the story told once more from its beginning must end with
// one debit and one credit.
func TestCrashAfterEveryStatement(t *testing.T) {
	t.Parallel()
	clock := ledgertest.NewClock()
	dir := t.TempDir()
	path := filepath.Join(dir, "ledger.db")
	var images []string
	keep := func(cut bool) {
		to := filepath.Join(dir, fmt.Sprintf("crash-%03d", len(images)))
		must(t, os.Mkdir(to, 0o700))
		copyLedger(t, path, filepath.Join(to, "ledger.db"), cut)
		images = append(images, filepath.Join(to, "ledger.db"))
	}
	afterCommit := false
	l := openAt(t, path, sqlledger.Options{Clock: clock.Now, BeforeStatement: func(statement string) error {
		if afterCommit {
			keep(true)
		}
		afterCommit = statement == "COMMIT"
		keep(false)
		return nil
	}})
	story(t, l, clock)
	keep(false)
	must(t, l.Close())
	if len(images) < 60 {
		t.Fatalf("only %d images were kept", len(images))
	}
	for _, image := range images {
		again := openAt(t, image, sqlledger.Options{Clock: clock.Now})
		if report := verify(t, again); !report.Clean() {
			t.Fatalf("%s: %+v", filepath.Base(filepath.Dir(image)), report.Violations)
		}
		clock.Advance(2 * time.Minute) // what was leased by the dead is due again
		story(t, again, clock)
		must(t, again.Close())
	}
	t.Logf("%d crash images", len(images))
}

// story takes one request from submission to credit; every step may have
// happened before.
func story(t *testing.T, l *sqlledger.Ledger, clock *ledgertest.Clock) {
	t.Helper()
	ctx, ref := t.Context(), budget.Ref{Tenant: "team-a", ID: "x"}
	must(t, second(l.SetPool(ctx, "default", 10)))
	must(t, second(l.SetQuota(ctx, "team-a", 2)))
	r, err := l.Submit(ctx, request("team-a", "x", 2))
	must(t, err)
	must(t, second(l.Admit(ctx, 0)))
	deliver(t, l)
	if r.State == budget.Waiting {
		b, err := l.Binding(ctx, ref)
		if err != nil || b.UID != "u1" {
			t.Fatalf("binding is %+v, %v", b, err)
		}
	}
	must(t, second(l.RequestRelease(ctx, ref)))
	deliver(t, l)
	must(t, second(l.Credit(ctx, ref, false)))
	journal, err := l.Journal(ctx, ref)
	must(t, err)
	if len(journal) != 2 || journal[0].Slots != 2 || journal[1].Slots != -2 {
		t.Fatalf("journal is %+v", journal)
	}
	tenant, err := l.Tenant(ctx, "team-a")
	must(t, err)
	if report := verify(t, l); tenant.Used != 0 || !report.Clean() {
		t.Fatalf("used is %d, %+v", tenant.Used, report.Violations)
	}
}

func deliver(t *testing.T, l *sqlledger.Ledger) {
	t.Helper()
	claimed, err := l.Claim(t.Context(), "relay", 10, time.Minute)
	must(t, err)
	for _, in := range claimed {
		if in.Op == budget.Delete {
			must(t, l.DeleteDelivered(t.Context(), in))
		} else if err := l.Delivered(t.Context(), in, budget.Object{Namespace: "models", Name: "md-x", UID: "u1"}); !errors.Is(err, budget.ErrReleaseRequested) {
			must(t, err)
		}
	}
}

// copyLedger copies the database and its log, as a kill would leave them. A
// cut log lacks half of its last page.
func copyLedger(t *testing.T, from, to string, cut bool) {
	t.Helper()
	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(from + suffix)
		must(t, err)
		if cut && suffix == "-wal" && len(content) > 2048 {
			content = content[:len(content)-2048]
		}
		must(t, os.WriteFile(to+suffix, content, 0o600))
	}
}

// childEnv tells the test binary to be another process that works on the file.
const childEnv = "MODELDOCK_LEDGERTEST_CHILD"

// TestKillLosesNothingAcknowledged kills a process with -9 in the middle of
// its writing: whatever it had acknowledged is there afterwards.
func TestKillLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildWriter$", "-test.v")
	child.Env = append(os.Environ(), childEnv+"="+path)
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
	l := openAt(t, path, sqlledger.Options{})
	defer func() { _ = l.Close() }()
	for id := range acknowledged {
		must(t, second(l.Get(t.Context(), budget.Ref{Tenant: "team-a", ID: id})))
	}
	if report := verify(t, l); !report.Clean() {
		t.Fatalf("%+v", report.Violations)
	}
}

// TestChildWriter is the process that is killed; on its own it does nothing.
func TestChildWriter(t *testing.T) {
	path := os.Getenv(childEnv)
	if path == "" {
		t.Log("runs as the child of TestKillLosesNothingAcknowledged")
		return
	}
	l := openAt(t, path, sqlledger.Options{})
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
