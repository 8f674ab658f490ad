package sqlledger_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
)

// What was audited is neither changed nor removed before its retention, whoever
// tries with this database: only what the retention names goes.
func TestAuditStays(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := openAt(t, path, sqlledger.Options{})
	defer func() { must(t, l.Close()) }()
	db := openDirectly(t, path)
	defer func() { must(t, db.Close()) }()
	auditStays(t, l, db)
}

func auditStays(t *testing.T, l *sqlledger.Ledger, db *sql.DB) {
	t.Helper()
	for _, who := range []string{"admin k1", "tenant k2", "admin k1", "tenant k2", "admin k1", "tenant k2"} {
		must(t, l.AppendAudit(t.Context(), budget.AuditEntry{Who: who, What: "PUT /x", Result: "ok"}))
	}
	refused := func(when string, statements ...string) {
		t.Helper()
		for _, statement := range statements {
			if _, err := db.Exec(statement); err == nil || !strings.Contains(err.Error(), "audit") {
				t.Errorf("%s: %s was done: %v", when, statement, err)
			}
		}
	}
	kept := func(want int) {
		t.Helper()
		all, err := l.Audit(t.Context(), 0)
		must(t, err)
		if len(all) != want {
			t.Fatalf("%d entries are kept, want %d: %+v", len(all), want, all)
		}
	}
	refused("before any retention", `UPDATE audit SET result = 'other'`, `UPDATE audit SET at = 0 WHERE seq = 1`, `DELETE FROM audit`, `DELETE FROM audit WHERE seq = 1`)
	kept(6)
	must(t, l.PruneAudit(t.Context(), 2)) // the first of each kind goes
	kept(4)
	refused("after one", `DELETE FROM audit WHERE seq = 3`, `DELETE FROM audit WHERE who LIKE 'tenant %'`, `UPDATE audit SET who = 'nobody'`)
	must(t, l.PruneAudit(t.Context(), 1))
	kept(2)
	refused("after two", `DELETE FROM audit`)
	kept(2)
}
