//go:build mariadb

package sqlledger_test

import (
	"testing"

	"modeldock.io/internal/budget/ledgertest"
	"modeldock.io/internal/budget/sqlledger"
)

var mysqlViolations = []violation{
	{"tenant uses more than it holds", "INV1", false, nil, `UPDATE tenant_quota SET used = used + 1 WHERE tenant = 'team-a'`},
	{"tenant uses less than it holds", "INV1", false, nil, `UPDATE tenant_quota SET used = 0 WHERE tenant = 'team-a'`},
	{"tenant uses less than nothing", "INV1", true, silentChecks, `UPDATE tenant_quota SET used = -1 WHERE tenant = 'team-b'`},
	{"pool uses more than it holds", "INV2", false, nil, `UPDATE gpu_pool SET used = used + 1`},
	{"a row holds more than was debited", "INV2", false, nil, `UPDATE reservation SET held = held * 2 WHERE id = 'one'`},
	{"two reservations share a UID", "INV3", true, copied("binding"), `UPDATE binding SET uid = 'u1'`},
	{"two reservations share an object name", "INV3", true, copied("binding"), `UPDATE binding SET name = 'md-u1'`},
	{"one reservation has two objects", "INV3", true, copied("binding"),
		`INSERT INTO binding SELECT tenant, id, namespace, 'second', 'u9', bound_at, 0, NULL, NULL FROM binding WHERE id = 'one'`},
	{"reserved goes back to waiting", "INV4", true, append([]string{`DROP TRIGGER reservation_moves`}, silentChecks...),
		`UPDATE reservation SET state = 'waiting' WHERE id = 'one'`},
	{"released comes back to life", "INV4", true, append([]string{`DROP TRIGGER reservation_moves`}, silentChecks...),
		`UPDATE reservation SET state = 'reserved' WHERE id = 'gone'`},
	{"waiting holds slots", "INV4", true, silentChecks, `UPDATE reservation SET held = cost WHERE id = 'queued'`},
	{"more replicas may run than are held for", "INV4", true, silentChecks, `UPDATE reservation SET funded = 2 WHERE id = 'one'`},
	{"reserved for no replica", "INV4", true, silentChecks, `UPDATE reservation SET funded = 0 WHERE id = 'one'`},
	{"waiting with a replica", "INV4", true, silentChecks, `UPDATE reservation SET funded = 1 WHERE id = 'queued'`},
	{"delivery was told another count", "INV5", false, nil, `UPDATE outbox SET funded = 2 WHERE id = 'one'`},
	{"delivery was not told of a generation", "INV5", false, nil, `UPDATE reservation SET generation = 2 WHERE id = 'one'`},
	{"reserved without its first intent", "INV5", false, nil, `DELETE FROM outbox WHERE id = 'one'`},
	{"waiting with an intent", "INV5", false, nil,
		`INSERT INTO outbox (tenant, id, op, generation, payload, funded, next_attempt_at) SELECT tenant, id, 'apply', 1, spec, 1, 0 FROM reservation WHERE id = 'queued'`},
	{"a second debit of one revision", "INV6", true, copied("journal"),
		`INSERT INTO journal (seq, tenant, id, pool, op, revision, slots, at) SELECT seq + 100, tenant, id, pool, op, revision, slots, at FROM journal WHERE id = 'one'`},
	{"a second credit", "INV6", true, []string{`ALTER TABLE journal DROP INDEX journal_once`},
		`INSERT INTO journal (tenant, id, pool, op, revision, slots, at) SELECT tenant, id, pool, 'release', 99, -1, 0 FROM reservation WHERE id = 'gone'`},
	{"a growth that nobody holds", "INV6", false, nil,
		`INSERT INTO journal (tenant, id, pool, op, revision, slots, at) SELECT tenant, id, pool, 'grow', 1, 1, 0 FROM reservation WHERE id = 'one'`},
	{"a shrink that takes", "INV6", true, silentChecks,
		`INSERT INTO journal (tenant, id, pool, op, revision, slots, at) SELECT tenant, id, pool, 'shrink', 1, 1, 0 FROM reservation WHERE id = 'one'`},
	{"a debit that was taken out", "INV6", true, []string{`DROP TRIGGER journal_stays`}, `DELETE FROM journal WHERE id = 'one'`},
	{"a debit that was changed", "INV6", true, []string{`DROP TRIGGER journal_keeps`}, `UPDATE journal SET slots = slots + 1 WHERE id = 'one'`},
}

// silentChecks is for the session: the test has only one.
var silentChecks = []string{`SET SESSION check_constraint_checks = 0`}

// copied turns a table into a plain copy of itself.
func copied(table string) []string {
	return []string{
		`RENAME TABLE ` + table + ` TO guarded`,
		`CREATE TABLE ` + table + ` AS SELECT * FROM guarded`,
	}
}

func TestMySQLEveryViolationIsCaught(t *testing.T) {
	t.Parallel()
	for _, v := range mysqlViolations {
		t.Run(v.invariant+" "+v.name, func(t *testing.T) {
			t.Parallel()
			s, name := database(t)
			l := openMySQLAt(t, s.DSN(name), sqlledger.Options{Clock: ledgertest.NewClock().Now})
			defer func() { must(t, l.Close()) }()
			tell(t, l)
			if report := verify(t, l); !report.Clean() {
				t.Fatalf("violated before anything was broken: %+v", report.Violations)
			}
			db := directly(t, s.DSN(name))
			db.SetMaxOpenConns(1) // what is silenced is so in one session
			caught(t, l, db, v)
		})
	}
}
