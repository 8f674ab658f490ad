package sqlledger_test

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/ledgertest"
	"modeldock.io/internal/budget/sqlledger"
	"modeldock.io/internal/modelspec"
)

// violation breaks one invariant behind the ledger's back. The schema refuses
// it where it can; with the guards taken away, Verify must name it.
type violation struct {
	name      string
	invariant string
	refused   bool     // by the schema as it stands
	unguard   []string // takes the schema's guards away
	statement string
}

var violations = []violation{
	{"tenant uses more than it holds", "INV1", false, nil, `UPDATE tenant_quota SET used = used + 1 WHERE tenant = 'team-a'`},
	{"tenant uses less than it holds", "INV1", false, nil, `UPDATE tenant_quota SET used = 0 WHERE tenant = 'team-a'`},
	{"tenant uses less than nothing", "INV1", true, ignoreChecks, `UPDATE tenant_quota SET used = -1 WHERE tenant = 'team-b'`},
	{"pool uses more than it holds", "INV2", false, nil, `UPDATE gpu_pool SET used = used + 1`},
	{"a row holds more than was debited", "INV2", false, nil, `UPDATE reservation SET held = held * 2 WHERE id = 'one'`},
	{"two reservations share a UID", "INV3", true, unconstrained("binding"), `UPDATE binding SET uid = 'u1'`},
	{"two reservations share an object name", "INV3", true, unconstrained("binding"), `UPDATE binding SET name = 'md-u1'`},
	{"one reservation has two objects", "INV3", true, unconstrained("binding"),
		`INSERT INTO binding SELECT tenant, id, namespace, 'second', 'u9', bound_at, 0, NULL, NULL FROM binding WHERE id = 'one'`},
	{"reserved goes back to waiting", "INV4", true, append(unmoved, ignoreChecks...),
		`UPDATE reservation SET state = 'waiting' WHERE id = 'one'`},
	{"released comes back to life", "INV4", true, append(unmoved, ignoreChecks...),
		`UPDATE reservation SET state = 'reserved' WHERE id = 'gone'`},
	{"waiting holds slots", "INV4", true, ignoreChecks, `UPDATE reservation SET held = cost WHERE id = 'queued'`},
	{"more replicas may run than are held for", "INV4", true, ignoreChecks, `UPDATE reservation SET funded = 2 WHERE id = 'one'`},
	{"reserved for no replica", "INV4", true, unmoved, `UPDATE reservation SET funded = 0 WHERE id = 'one'`},
	{"waiting with a replica", "INV4", true, append(unmoved, ignoreChecks...), `UPDATE reservation SET funded = 1 WHERE id = 'queued'`},
	{"delivery was told another count", "INV5", false, nil, `UPDATE outbox SET funded = 2 WHERE id = 'one'`},
	{"delivery was not told of a generation", "INV5", false, nil, `UPDATE reservation SET generation = 2 WHERE id = 'one'`},
	{"reserved without its first intent", "INV5", false, nil, `DELETE FROM outbox WHERE id = 'one'`},
	{"waiting with an intent", "INV5", false, nil,
		`INSERT INTO outbox (tenant, id, op, generation, payload, funded, next_attempt_at) SELECT tenant, id, 'apply', 1, spec, 1, 0 FROM reservation WHERE id = 'queued'`},
	{"a second debit of one revision", "INV6", true, unconstrained("journal"),
		`INSERT INTO journal SELECT seq + 100, tenant, id, pool, op, revision, slots, at FROM journal WHERE id = 'one'`},
	{"a second credit", "INV6", true, []string{`DROP INDEX journal_once`},
		`INSERT INTO journal (tenant, id, pool, op, revision, slots, at) SELECT tenant, id, pool, 'release', 99, -1, 0 FROM reservation WHERE id = 'gone'`},
	{"a growth that nobody holds", "INV6", false, nil,
		`INSERT INTO journal (tenant, id, pool, op, revision, slots, at) SELECT tenant, id, pool, 'grow', 1, 1, 0 FROM reservation WHERE id = 'one'`},
	{"a shrink that takes", "INV6", true, ignoreChecks,
		`INSERT INTO journal (tenant, id, pool, op, revision, slots, at) SELECT tenant, id, pool, 'shrink', 1, 1, 0 FROM reservation WHERE id = 'one'`},
	{"a debit that was taken out", "INV6", true, []string{`DROP TRIGGER journal_stays`}, `DELETE FROM journal WHERE id = 'one'`},
	{"a debit that was changed", "INV6", true, []string{`DROP TRIGGER journal_keeps`}, `UPDATE journal SET slots = slots + 1 WHERE id = 'one'`},
}

// unmoved leaves every move and every count of replicas to the writer.
var unmoved = []string{`DROP TRIGGER reservation_moves`, `DROP TRIGGER reservation_funds`}

var ignoreChecks = []string{`PRAGMA ignore_check_constraints = 1`}

// unconstrained turns a table into a plain copy of itself.
func unconstrained(table string) []string {
	return []string{
		`ALTER TABLE ` + table + ` RENAME TO guarded`,
		`CREATE TABLE ` + table + ` AS SELECT * FROM guarded`,
	}
}

func TestEveryViolationIsCaught(t *testing.T) {
	t.Parallel()
	for _, v := range violations {
		t.Run(v.invariant+" "+v.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "ledger.db")
			l := openAt(t, path, sqlledger.Options{Clock: ledgertest.NewClock().Now})
			defer func() { _ = l.Close() }()
			tell(t, l)
			report := verify(t, l)
			if !report.Clean() {
				t.Fatalf("violated before anything was broken: %+v", report.Violations)
			}
			caught(t, l, openDirectly(t, path), v)
		})
	}
}

// caught breaks one invariant and fails unless the schema refuses it where it
// can and Verify names it where the schema was silenced.
func caught(t *testing.T, l *sqlledger.Ledger, db *sql.DB, v violation) {
	t.Helper()
	_, err := db.Exec(v.statement)
	if (err != nil) != v.refused {
		t.Fatalf("the schema answered %v, refusal expected: %v", err, v.refused)
	}
	if v.refused {
		for _, statement := range append(v.unguard, v.statement) {
			if _, err := db.Exec(statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	}
	for _, found := range verify(t, l).Violations {
		if found.Invariant == v.invariant {
			return
		}
	}
	t.Fatalf("%s was broken, verify found %+v", v.invariant, verify(t, l).Violations)
}

// tell makes requests in every state: one and two reserved and bound, queued
// waiting, gone released.
func tell(t *testing.T, l *sqlledger.Ledger) {
	t.Helper()
	ctx := t.Context()
	must(t, second(l.SetPool(ctx, "default", 10)))
	must(t, second(l.SetQuota(ctx, "team-a", 4)))
	must(t, second(l.SetQuota(ctx, "team-b", 4)))
	for _, id := range []string{"gone", "one", "two"} {
		must(t, second(l.Submit(ctx, request("team-a", id, 1))))
	}
	must(t, second(l.Admit(ctx, 0)))
	must(t, second(l.Submit(ctx, request("team-a", "queued", 3))))
	claimed, err := l.Claim(ctx, "relay", 10, time.Minute)
	must(t, err)
	for i, uid := range []string{"u0", "u1", "u2"} {
		must(t, l.Delivered(ctx, claimed[i], budget.Object{Namespace: "models", Name: "md-" + uid, UID: uid}))
	}
	gone := budget.Ref{Tenant: "team-a", ID: "gone"}
	must(t, second(l.RequestRelease(ctx, gone)))
	claimed, err = l.Claim(ctx, "relay", 10, time.Minute)
	must(t, err)
	must(t, l.DeleteDelivered(ctx, claimed[0]))
	must(t, second(l.Credit(ctx, gone, false)))
}

func request(tenant, id string, cost int64) budget.Submission {
	return budget.Submission{
		Ref: budget.Ref{Tenant: tenant, ID: id}, Cost: cost, Priority: 50, Pool: budget.DefaultPool, TTL: budget.DefaultTTL, Model: modelspec.Default(id),
	}
}

func verify(t *testing.T, l *sqlledger.Ledger) budget.Report {
	t.Helper()
	report, err := l.Verify(t.Context())
	must(t, err)
	return report
}

func openDirectly(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_txlock=immediate")
	must(t, err)
	db.SetMaxOpenConns(1) // pragmas belong to the connection
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// second drops the answer of a call whose error alone matters.
func second[T any](_ T, err error) error { return err }
