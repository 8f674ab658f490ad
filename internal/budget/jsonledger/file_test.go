package jsonledger_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/jsonledger"
	"modeldock.io/internal/modelspec"
)

func openAt(t *testing.T, path string) *jsonledger.Ledger {
	t.Helper()
	l, err := jsonledger.Open(path, jsonledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// filled is the path of a closed ledger with one reserved request.
func filled(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.json")
	l := openAt(t, path)
	_, pool := l.SetPool(t.Context(), "default", 4)
	_, quota := l.SetQuota(t.Context(), "team-a", 4)
	_, submit := l.Submit(t.Context(), budget.Submission{
		Ref: budget.Ref{Tenant: "team-a", ID: "x"}, Cost: 2, Priority: 1, Pool: "default", TTL: time.Hour, Model: modelspec.Default("x"),
	})
	_, admit := l.Admit(t.Context(), 0)
	if err := errors.Join(pool, quota, submit, admit, l.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReopenKeepsEverything(t *testing.T) {
	t.Parallel()
	path := filled(t)
	// A write that a crash interrupted leaves its beginning beside the file.
	if err := os.WriteFile(path+".next", []byte(`{"Version":`), 0o600); err != nil {
		t.Fatal(err)
	}
	l := openAt(t, path)
	defer func() { _ = l.Close() }()
	r, err := l.Get(t.Context(), budget.Ref{Tenant: "team-a", ID: "x"})
	if err != nil || r.State != budget.Reserved {
		t.Fatalf("got %+v, %v", r, err)
	}
	if _, err := l.SetQuota(t.Context(), "team-a", 5); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyOneProcess(t *testing.T) {
	t.Parallel()
	path := filled(t)
	l := openAt(t, path)
	if _, err := jsonledger.Open(path, jsonledger.Options{}); err == nil || !strings.Contains(err.Error(), "already open") {
		t.Fatalf("a second opening was answered %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := openAt(t, path).Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAnotherVersionIsRefused(t *testing.T) {
	t.Parallel()
	path := filled(t)
	edit(t, path, `"Version": 2`, `"Version": 3`)
	if _, err := jsonledger.Open(path, jsonledger.Options{}); err == nil || !strings.Contains(err.Error(), "version 3") {
		t.Fatalf("got %v", err)
	}
}

// TestTheFirstVersionIsConverted: it had no funded replicas beside the slots.
func TestTheFirstVersionIsConverted(t *testing.T) {
	t.Parallel()
	path := filled(t)
	edit(t, path, `"Version": 2`, `"Version": 1`)
	edit(t, path, "   \"Funded\": 1,\n   \"Submits\"", "   \"Submits\"")
	l := openAt(t, path)
	defer func() { _ = l.Close() }()
	r, err := l.Get(t.Context(), budget.Ref{Tenant: "team-a", ID: "x"})
	if err != nil || r.Funded != 1 || r.Held != 2 {
		t.Fatalf("got %+v, %v", r, err)
	}
	if report, err := l.Verify(t.Context()); err != nil || !report.Clean() {
		t.Fatalf("%v, %+v", err, report.Violations)
	}
}

func TestAFailedWriteChangesNothing(t *testing.T) {
	t.Parallel()
	path := filled(t)
	l := openAt(t, path)
	defer func() { _ = l.Close() }()
	// A folder in the place of the next file makes every write fail.
	if err := os.MkdirAll(path+".next", 0o700); err != nil {
		t.Fatal(err)
	}
	ref := budget.Ref{Tenant: "team-a", ID: "x"}
	if _, err := l.RequestRelease(t.Context(), ref); !errors.Is(err, budget.ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
	if r, err := l.Get(t.Context(), ref); err != nil || !r.ReleaseRequestedAt.IsZero() {
		t.Fatalf("the failed release is remembered: %+v, %v", r, err)
	}
	if err := os.Remove(path + ".next"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.RequestRelease(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
}

func TestAViolationIsCaught(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ invariant, from, to string }{
		{"INV1", `"Used": 2`, `"Used": 1`},
		{"INV4", `"State": "reserved"`, `"State": "waiting"`},
		{"INV4", `"Held": 2,
   "Funded": 1`, `"Held": 2,
   "Funded": 2`},
		{"INV4", `"Held": 2,
   "Funded": 1`, `"Held": 2,
   "Funded": 0`},
		{"INV5", `"Op": "apply"`, `"Op": "delete"`},
		{"INV5", `"Revision": 2,
   "Generation": 1`, `"Revision": 2,
   "Generation": 2`},
		{"INV6", `"Slots": 2`, `"Slots": 3`},
		{"INV6", `"Op": "reserve"`, `"Op": "shrink"`},
	} {
		path := filled(t)
		edit(t, path, c.from, c.to)
		l := openAt(t, path)
		report, err := l.Verify(t.Context())
		if err != nil || report.Clean() {
			t.Fatalf("%s: %v, %+v", c.invariant, err, report)
		}
		found := false
		for _, v := range report.Violations {
			found = found || v.Invariant == c.invariant
		}
		if !found {
			t.Errorf("%s, %s: not among %+v", c.invariant, c.to, report.Violations)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func edit(t *testing.T, path, from, to string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(content, []byte(from)) {
		t.Fatalf("the file has no %s", from)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(content, []byte(from), []byte(to)), 0o600); err != nil {
		t.Fatal(err)
	}
}
