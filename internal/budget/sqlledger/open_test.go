package sqlledger_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
)

func TestReopenKeepsEverything(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "with space # and %41?.db")
	l := openAt(t, path, sqlledger.Options{})
	tell(t, l)
	incarnation, seq, err := l.Identity(t.Context())
	must(t, err)
	want, err := l.List(t.Context(), budget.Filter{})
	must(t, err)
	must(t, l.Close())

	l = openAt(t, path, sqlledger.Options{})
	defer func() { _ = l.Close() }()
	same, sameSeq, err := l.Identity(t.Context())
	must(t, err)
	if same != incarnation || sameSeq != seq || seq != 4 {
		t.Fatalf("identity is %s/%d, was %s/%d", same, sameSeq, incarnation, seq)
	}
	got, err := l.List(t.Context(), budget.Filter{})
	must(t, err)
	if len(got) != len(want) || !verify(t, l).Clean() {
		t.Fatalf("%d rows, were %d", len(got), len(want))
	}
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Fatalf("the file's mode is %v", info.Mode())
	}
}

func TestAnotherLedgerIsAnotherIncarnation(t *testing.T) {
	t.Parallel()
	var ids [2]string
	for i := range ids {
		l := openAt(t, filepath.Join(t.TempDir(), "ledger.db"), sqlledger.Options{})
		id, _, err := l.Identity(t.Context())
		must(t, err)
		ids[i] = id
		must(t, l.Close())
	}
	if ids[0] == ids[1] {
		t.Fatal("two ledgers share an incarnation")
	}
}

func TestManyOpenAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	errs := make([]error, 5)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			l, err := sqlledger.OpenSQLite(t.Context(), path, sqlledger.Options{})
			if err == nil {
				err = errors.Join(second(l.SetPool(t.Context(), "default", 1)), l.Close())
			}
			errs[i] = err
		})
	}
	all.Wait()
	must(t, errors.Join(errs...))
}

func TestANewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	must(t, openAt(t, path, sqlledger.Options{}).Close())
	_, err := openDirectly(t, path).Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)`)
	must(t, err)
	_, err = sqlledger.OpenSQLite(t.Context(), path, sqlledger.Options{})
	if err == nil || !strings.Contains(err.Error(), "schema version 999") {
		t.Fatalf("got %v", err)
	}
}

func TestAMissingFolderIsNamed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "nowhere", "ledger.db")
	_, err := sqlledger.OpenSQLite(t.Context(), path, sqlledger.Options{})
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Fatalf("got %v", err)
	}
}
