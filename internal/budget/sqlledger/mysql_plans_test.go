//go:build mariadb

package sqlledger_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/budget/sqlledger"
)

// planner asks for the plan of every statement before it runs it.
type planner struct {
	*sql.DB
	t     *testing.T
	plans map[string][]string // table:index by query name
}

func (p *planner) note(ctx context.Context, query string, args []any) {
	p.t.Helper()
	name := "by hand"
	if m := queryName.FindStringSubmatch(query); m != nil {
		name = m[1]
		_, query, _ = strings.Cut(query, "\n")
	}
	rows, err := p.DB.QueryContext(ctx, "EXPLAIN "+query, args...)
	if err != nil {
		p.t.Errorf("%s: %v", name, err)
		return
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id, kind, table, access, possible, key, length, ref, count, extra sql.NullString
		must(p.t, rows.Scan(&id, &kind, &table, &access, &possible, &key, &length, &ref, &count, &extra))
		if table.Valid {
			p.plans[name] = append(p.plans[name], fmt.Sprintf("%s:%s:%s", table.String, access.String, key.String))
		}
	}
	must(p.t, rows.Err())
}

func (p *planner) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if !strings.Contains(query, "VALUES (") {
		p.note(ctx, query, args)
	}
	return p.DB.ExecContext(ctx, query, args...)
}

func (p *planner) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	p.note(ctx, query, args)
	return p.DB.QueryContext(ctx, query, args...)
}

func (p *planner) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	p.note(ctx, query, args)
	return p.DB.QueryRowContext(ctx, query, args...)
}

// wantedPlans names for every query that runs while others wait the index by
// which it must find its rows, in each table that grows.
var wantedPlans = map[string][]string{
	"CheckInsert":            {"q:PRIMARY", "p:PRIMARY", "r:reservation_id", "r:reservation_live_model"},
	"by hand":                {"tenant_quota:PRIMARY", "reservation:reservation_id", "reservation:reservation_live_model"},
	"GetReservation":         {"reservation:reservation_id"},
	"CountSubmit":            {"reservation:reservation_id"},
	"CountRequests":          {"reservation:reservation_id|reservation_queue|reservation_live_model"},
	"CountWaiting":           {"reservation:reservation_queue|reservation_expiry"},
	"LiveModelHolder":        {"reservation:reservation_live_model"},
	"OpenHeads":              {"r:PRIMARY", "x:reservation_queue"},
	"CountsWaiting":          {"q:PRIMARY", "x:reservation_queue"},
	"FirstWaiting":           {"reservation:reservation_queue"},
	"QueueAfter":             {"reservation:reservation_queue"},
	"QueueBelow":             {"reservation:reservation_queue"},
	"ReserveReservations":    {"reservation:PRIMARY"},
	"ReservationsBySeq":      {"reservation:PRIMARY"},
	"TakeTenantSlots":        {"tenant_quota:PRIMARY"},
	"TakePoolSlots":          {"gpu_pool:PRIMARY"},
	"OverdueReservations":    {"reservation:reservation_expiry"},
	"DueIntents":             {"o:outbox_due", "p:outbox_open|outbox_once"},
	"LeaseIntent":            {"outbox:PRIMARY"},
	"IntentBySeq":            {"outbox:PRIMARY"},
	"GetIntent":              {"outbox:PRIMARY"},
	"MarkDelivered":          {"outbox:PRIMARY"},
	"SupersedeApplies":       {"outbox:outbox_once|outbox_open"},
	"IntentsOf":              {"outbox:outbox_once|outbox_open"},
	"AskRelease":             {"reservation:reservation_id"},
	"ReleaseReservation":     {"reservation:reservation_id"},
	"JournalOf":              {"journal:journal_revision|journal_once"},
	"ListReservations":       {"reservation:PRIMARY"},
	"ListTenantReservations": {"reservation:reservation_id|reservation_queue|PRIMARY|reservation_live_model"},
	"ListReleasing":          {"reservation:reservation_releasing"},
	"ListShrinking":          {"reservation:reservation_shrinking"},
	"AmendReservation":       {"reservation:reservation_id"},
	"CreditShrunk":           {"reservation:reservation_id"},
	"IntendApply":            {"r:PRIMARY"},
	"InferencesOf":           {"inference:inference_of"},
	"PruneByAge":             {"inference:inference_age"},
	"PruneTenantFrom":        {"inference:inference_age"},
	"GetBinding":             {"binding:PRIMARY"},
	"LiveBindings":           {"r:reservation_expiry", "b:PRIMARY"},
	"LedgerIdentity":         {"m:PRIMARY"},
}

// TestMySQLPlans: no query scans what grows.
func TestMySQLPlans(t *testing.T) {
	t.Parallel()
	s, name := database(t)
	l := openMySQLAt(t, s.DSN(name), sqlledger.Options{})
	defer func() { must(t, l.Close()) }()
	db := directly(t, s.DSN(name)+"?interpolateParams=true&clientFoundRows=true")
	grow(t, l, db)
	p := &planner{DB: db, t: t, plans: map[string][]string{}}
	sqlledger.InsertQueries(func(query string, args []any) { p.note(t.Context(), query, args) },
		request("tenant-07", "q7", 1), request("tenant-08", "q8", 1), request("tenant-09", "new", 1))
	askEverything(t, sqlledger.MySQLQueries(p))
	for query, wanted := range wantedPlans {
		got := p.plans[query]
		for _, want := range wanted {
			table, keys, _ := strings.Cut(want, ":")
			if !slices.ContainsFunc(got, func(step string) bool {
				parts := strings.SplitN(step, ":", 3)
				return parts[0] == table && parts[1] != "ALL" && slices.Contains(strings.Split(keys, "|"), parts[2])
			}) {
				t.Errorf("%s reads %v, must read %s", query, got, want)
			}
		}
	}
}

// grow fills the tables enough for the planner to prefer their indexes.
func grow(t *testing.T, l *sqlledger.Ledger, db *sql.DB) {
	t.Helper()
	tell(t, l)
	for i := range 40 {
		must(t, second(l.SetQuota(t.Context(), fmt.Sprintf("tenant-%02d", i), 5)))
	}
	now := time.Now().UnixMicro()
	for _, statement := range []string{
		`INSERT INTO reservation (tenant, id, cost, priority, need, model_name, model_version, spec, spec_hash, pool, created_at, expires_at)
		 SELECT CONCAT('tenant-', LPAD(seq % 40, 2, '0')), CONCAT('q', seq), 1, seq % 100, 1, CONCAT('m', seq), 'v1', '{}', '', 'default', %d, %d + 1000000 * seq FROM seq_1_to_8000`,
		`INSERT INTO reservation (tenant, id, cost, priority, need, model_name, model_version, spec, spec_hash, pool, created_at, expires_at, state, release_requested_at, released_at)
		 SELECT CONCAT('tenant-', LPAD(seq % 40, 2, '0')), CONCAT('old', seq), 1, seq % 100, 1, CONCAT('m', seq), 'v1', '{}', '', 'default', %d, %d + 1000000 * seq, 'released', 1, 1 FROM seq_1_to_8000`,
		`INSERT INTO outbox (tenant, id, op, generation, payload, funded, next_attempt_at, delivered_at)
		 SELECT tenant, id, 'apply', 1, spec, 1, %d, IF(seq %% 50 = 0, NULL, %d) FROM reservation WHERE id LIKE 'q%%' OR id LIKE 'old%%'`,
		`INSERT INTO journal (tenant, id, pool, op, revision, slots, at) SELECT tenant, id, pool, 'grow', 7, 1 + %d - %d, 1 FROM reservation WHERE id LIKE 'old%%'`,
		`INSERT INTO binding (tenant, id, namespace, name, uid, bound_at) SELECT tenant, id, 'models', CONCAT(tenant, id), CONCAT(tenant, id), %d - %d FROM reservation WHERE id LIKE 'old%%'`,
		`INSERT INTO inference SELECT CONCAT('i', seq), '', 'tenant-01', '', CONCAT('tenant-', LPAD(seq % 40, 2, '0')), 'm', 'v', CONCAT('q', seq % 500), '', '', '', 0, 200, '', '', %d + seq - %d, 0, NULL, NULL, NULL, NULL, NULL, 0, 0 FROM seq_1_to_8000`,
	} {
		statement = strings.ReplaceAll(strings.ReplaceAll(statement, "seq % ", "seq %% "), "seq %%% ", "seq %% ")
		_, err := db.Exec(fmt.Sprintf(statement, now, now))
		must(t, err)
	}
	_, err := db.Exec(`ANALYZE TABLE reservation, outbox, journal, binding, inference, tenant_quota`) //nolint:misspell // SQL
	must(t, err)
}
