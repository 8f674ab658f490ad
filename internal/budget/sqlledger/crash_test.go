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
	"modeldock.io/internal/modelspec"
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
	if len(images) < 150 {
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

// story takes one request from submission over growth and shrink to its
// credit; every step may have happened before.
func story(t *testing.T, l *sqlledger.Ledger, _ *ledgertest.Clock) {
	t.Helper()
	ctx, ref := t.Context(), budget.Ref{Tenant: "team-a", ID: "x"}
	for _, step := range steps(ctx, l, ref) {
		must(t, step())
	}
	b, err := l.Binding(ctx, ref)
	if !errors.Is(err, budget.ErrNotFound) && (err != nil || b.UID != "u1") {
		t.Fatalf("binding is %+v, %v", b, err)
	}
	journal, err := l.Journal(ctx, ref)
	must(t, err)
	var sum int64
	count := map[budget.Op]int{}
	for _, e := range journal {
		sum += e.Slots
		count[e.Op]++
	}
	if sum != 0 || count[budget.OpReserve] != 1 || count[budget.OpRelease] != 1 {
		t.Fatalf("journal is %+v", journal)
	}
	tenant, err := l.Tenant(ctx, "team-a")
	must(t, err)
	if report := verify(t, l); tenant.Used != 0 || !report.Clean() {
		t.Fatalf("used is %d, %+v", tenant.Used, report.Violations)
	}
}

// steps of the story.
func steps(ctx context.Context, l *sqlledger.Ledger, ref budget.Ref) []func() error {
	sub := request(ref.Tenant, ref.ID, 2)
	sub.Model.Replicas.Max = 3
	return []func() error{
		func() error { return second(l.SetPool(ctx, "default", 10)) },
		func() error { return second(l.SetQuota(ctx, ref.Tenant, 6)) },
		func() error { return second(l.Submit(ctx, sub)) },
		func() error { return repatch(ctx, l, ref, budget.Patch{Traffic: &modelspec.Traffic{Weight: 7}}) },
		func() error { return second(l.Admit(ctx, 0)) },
		func() error { return deliver(ctx, l) },
		func() error { return repatch(ctx, l, ref, budget.Patch{Replicas: &modelspec.Replicas{Min: 2, Max: 3}}) },
		func() error { return unlessReleasing(second(l.Grow(ctx, ref, 3))) },
		func() error { return unlessReleasing(second(l.Shrink(ctx, ref, 2))) },
		func() error { return repatch(ctx, l, ref, budget.Patch{Replicas: &modelspec.Replicas{Min: 1, Max: 3}}) },
		func() error { return deliver(ctx, l) },
		func() error { return creditShrink(ctx, l, ref) },
		func() error { return second(l.RequestRelease(ctx, ref)) },
		func() error { return deliver(ctx, l) },
		func() error { return second(l.Credit(ctx, ref, false)) },
	}
}

// unlessReleasing forgives what a story is told that was once told to its end.
func unlessReleasing(err error) error {
	if errors.Is(err, budget.ErrFinal) || errors.Is(err, budget.ErrReleaseRequested) {
		return nil
	}
	return err
}

// repatch patches whatever generation there is.
func repatch(ctx context.Context, l *sqlledger.Ledger, ref budget.Ref, p budget.Patch) error {
	r, err := l.Get(ctx, ref)
	if err != nil {
		return err
	}
	p.Generation = r.Generation
	return unlessReleasing(second(l.Patch(ctx, ref, p)))
}

// creditShrink gives back what two replicas held.
func creditShrink(ctx context.Context, l *sqlledger.Ledger, ref budget.Ref) error {
	r, err := l.Get(ctx, ref)
	if err != nil || r.State.Final() || !r.ReleaseRequestedAt.IsZero() {
		return err
	}
	if r, err = l.CreditShrink(ctx, ref, r.Generation); err == nil && (r.Held != 2 || r.Funded != 1) {
		return fmt.Errorf("%d slots are held for %d replicas after the credit", r.Held, r.Funded)
	}
	return err
}

// deliver carries everything out that is due.
func deliver(ctx context.Context, l *sqlledger.Ledger) error {
	for {
		claimed, err := l.Claim(ctx, "relay", 10, time.Minute)
		if err != nil || len(claimed) == 0 {
			return err
		}
		for _, in := range claimed {
			if in.Op == budget.Delete {
				err = l.DeleteDelivered(ctx, in)
			} else {
				err = unlessReleasing(l.Delivered(ctx, in, budget.Object{Namespace: "models", Name: "md-x", UID: "u1"}))
			}
			if err != nil {
				return err
			}
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
