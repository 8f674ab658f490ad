package sqlledger_test

import (
	"os"
	"path/filepath"
	"testing"

	"modeldock.io/internal/budget/sqlledger"
)

// What an inspection says of a file, before there is one, while a ledger works
// on it, and when a newer program made it.
func TestInspectSQLite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	before := inspect(t, path)
	if _, err := os.Stat(path); err == nil {
		t.Fatal("to look made a file")
	}
	if before.Version != 0 || before.Known < 5 || int64(len(before.Pending)) != before.Known || before.Pending[0] != "00001_ledger" || before.Newer() {
		t.Errorf("of nothing: %+v", before)
	}

	l := openAt(t, path, sqlledger.Options{})
	defer func() { _ = l.Close() }()
	tell(t, l)
	incarnation, seq, err := l.Identity(t.Context())
	must(t, err)
	if got := inspect(t, path); got.Version != got.Known || len(got.Pending) != 0 || got.Incarnation != incarnation || got.JournalSeq != seq || seq == 0 {
		t.Errorf("of %s/%d: %+v", incarnation, seq, got)
	}
	must(t, l.LiftJournal(t.Context(), seq+100))
	if got := inspect(t, path); got.JournalSeq != seq+100 {
		t.Errorf("the journal was lifted to %d: %+v", seq+100, got)
	}

	_, err = openDirectly(t, path).Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)`)
	must(t, err)
	if got := inspect(t, path); !got.Newer() || got.Version != 999 {
		t.Errorf("of a newer one: %+v", got)
	}
}

func inspect(t *testing.T, path string) sqlledger.Inspection {
	t.Helper()
	i, err := sqlledger.InspectSQLite(t.Context(), path)
	must(t, err)
	return i
}

// A file that is no database is not called an empty ledger.
func TestInspectSQLiteSaysWhatIsNoLedger(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	must(t, os.WriteFile(path, []byte("this is a letter, and by no means a database\n"), 0o600))
	if i, err := sqlledger.InspectSQLite(t.Context(), path); err == nil {
		t.Errorf("it is %+v", i)
	}
}
