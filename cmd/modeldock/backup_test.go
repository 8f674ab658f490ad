package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/budget/backup"
)

func TestLedgerExportAndImport(t *testing.T) {
	t.Parallel()
	boss := admin(t)
	a := tenant(t)
	a.run("submit", "--id", "exported", quick).exits(exitOK)
	file := filepath.Join(t.TempDir(), "ledger.json")
	boss.run("ledger", "export", "--file", file).exits(exitOK)
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v (%v), want 0600", info.Mode(), err)
	}
	doc, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r := backup.NewReader(strings.NewReader(string(doc)))
	head, err := r.Head()
	if err != nil {
		t.Fatal(err)
	}
	if contents, err := backup.Check(head, r.Rows(), time.Now()); err != nil || contents.Reservations == 0 {
		t.Fatalf("the file holds %+v: %v", contents, err)
	}
	boss.run("ledger", "export", "--file", file).exits(exitUsage, "is there already", "--overwrite")
	if again, err := os.ReadFile(file); err != nil || string(again) != string(doc) {
		t.Error("a refused export changed the file")
	}
	boss.run("ledger", "export", "--file", file, "--overwrite").exits(exitOK)
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(file), ".modeldock-export-*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if d := boss.run("ledger", "export").exits(exitOK); !strings.HasPrefix(d.out, `{"format":"modeldock-ledger/1"`) {
		t.Errorf("stdout begins with %.60q", d.out)
	}
	a.run("ledger", "export").exits(exitUnauthorised)

	boss.run("ledger", "import", file).exits(exitConflict, "empty data directory")
	feed(t, "{}", append([]string{"ledger", "import", "-"}, boss.flags...)...).exits(exitUsage, "acceptOlder")
	boss.run("ledger", "import", "--accept-older").exits(exitConflict, "nothing to accept")
	boss.run("ledger", "import").exits(exitUsage, "FILE")
	boss.run("ledger", "import", file, "--accept-older").exits(exitUsage, "either")
	boss.run("ledger", "import", filepath.Join(t.TempDir(), "none")).exits(exitFailed, "read the document")
}
