package sqlledger_test

import (
	"path/filepath"
	"testing"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
)

// TestUpgradeFundsWhatWasReserved: a ledger from before replicas were funded
// apart from the slots opens with as many as it paid for.
func TestUpgradeFundsWhatWasReserved(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := openAt(t, path, sqlledger.Options{})
	tell(t, l)
	must(t, second(l.SetQuota(t.Context(), "team-b", 10)))
	triple := request("team-b", "triple", 2)
	triple.Model.Replicas.Min, triple.Model.Replicas.Max = 3, 3
	must(t, second(l.Submit(t.Context(), triple)))
	must(t, second(l.Admit(t.Context(), 0)))
	must(t, l.Close())
	db := openDirectly(t, path)
	for _, statement := range []string{
		`DROP INDEX reservation_shrinking`, `DROP TRIGGER reservation_funds`, `DROP TRIGGER reservation_begins_unfunded`,
		`ALTER TABLE reservation DROP COLUMN funded`, `ALTER TABLE tenant_quota DROP COLUMN limits`,
		`ALTER TABLE gpu_pool DROP COLUMN warm`, `ALTER TABLE gpu_pool DROP COLUMN warm_day`,
		`DROP TRIGGER audit_keeps`, `DROP TRIGGER audit_stays`, `ALTER TABLE audit DROP COLUMN tenant`, `ALTER TABLE audit DROP COLUMN source`, `DROP TABLE ended_grant`, `DELETE FROM goose_db_version WHERE version_id >= 4`,
	} {
		_, err := db.Exec(statement)
		must(t, err)
	}
	must(t, db.Close())
	l = openAt(t, path, sqlledger.Options{})
	defer func() { must(t, l.Close()) }()
	upgraded(t, l)
	if tenant, err := l.Tenant(t.Context(), "team-a"); err != nil || !tenant.Limits.Empty() {
		t.Errorf("a tenant from before limits is %+v, %v", tenant, err)
	}
}

// upgraded fails unless the old requests stand as before and can go on.
func upgraded(t *testing.T, l *sqlledger.Ledger) {
	t.Helper()
	if report := verify(t, l); !report.Clean() {
		t.Fatalf("%+v", report.Violations)
	}
	for ref, funded := range map[budget.Ref]int{
		{Tenant: "team-a", ID: "one"}: 1, {Tenant: "team-a", ID: "queued"}: 0, {Tenant: "team-a", ID: "gone"}: 0, {Tenant: "team-b", ID: "triple"}: 3,
	} {
		r, err := l.Get(t.Context(), ref)
		must(t, err)
		if r.Funded != funded {
			t.Errorf("%s is funded for %d replicas, must be for %d", ref.ID, r.Funded, funded)
		}
	}
	ref := budget.Ref{Tenant: "team-a", ID: "one"}
	must(t, second(l.RequestRelease(t.Context(), ref)))
	must(t, second(l.Credit(t.Context(), ref, true)))
	if report := verify(t, l); !report.Clean() {
		t.Fatalf("%+v", report.Violations)
	}
}
