package sqlledger_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
)

var queryName = regexp.MustCompile(`-- name: (\w+)`)

// scanner asks SQLite for the plan of every statement before it runs it, and
// fails the test where one reads a whole table that grows.
type scanner struct {
	*sql.DB
	t     *testing.T
	asked int
}

// small are the tables with a row for each tenant or pool, the index of live
// requests, and the indexes that are read in their order until there is enough.
var small = regexp.MustCompile(`^SCAN (q|tenant_quota|gpu_pool|i|inference USING INDEX inference_age)\b|^SCAN \d+-ROW|^SCAN inference_age|^SCAN r USING INDEX reservation_live_model$`)

func (s *scanner) note(ctx context.Context, query string, args []any) {
	s.t.Helper()
	name := queryName.FindStringSubmatch(query)[1]
	s.asked++
	rows, err := s.DB.QueryContext(ctx, "EXPLAIN QUERY PLAN "+query, args...)
	must(s.t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id, parent, unused int
		var step string
		must(s.t, rows.Scan(&id, &parent, &unused, &step))
		if strings.HasPrefix(step, "SCAN") && !small.MatchString(step) {
			s.t.Errorf("%s: %s", name, step)
		}
	}
	must(s.t, rows.Err())
}

func (s *scanner) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s.note(ctx, query, args)
	return s.DB.ExecContext(ctx, query, args...)
}

func (s *scanner) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s.note(ctx, query, args)
	return s.DB.QueryContext(ctx, query, args...)
}

func (s *scanner) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	s.note(ctx, query, args)
	return s.DB.QueryRowContext(ctx, query, args...)
}

// TestSQLitePlans: no query that runs while others wait scans what grows.
func TestSQLitePlans(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := openAt(t, path, sqlledger.Options{})
	defer func() { must(t, l.Close()) }()
	tell(t, l)
	for i := range 10 {
		name := fmt.Sprintf("tenant-%02d", i)
		must(t, second(l.SetQuota(t.Context(), name, 5)))
		must(t, second(l.Submit(t.Context(), request(name, "q7", 1))))
	}
	must(t, second(l.Admit(t.Context(), 1)))
	s := &scanner{DB: openDirectly(t, path), t: t}
	askEverything(t, sqlledger.SQLiteQueries(s))
	if s.asked < 29 {
		t.Fatalf("only %d queries were asked for their plans", s.asked)
	}
}

// askEverything runs the queries with likely arguments; what they answer does
// not matter here.
func askEverything(t *testing.T, q sqlledger.Queries) {
	t.Helper()
	ctx := t.Context()
	now, tenant, id := time.Now().UnixMicro(), "tenant-07", "q7"
	at := sql.NullInt64{Int64: now, Valid: true}
	_, _ = q.InsertReservation(ctx, sqlitequery.InsertReservationParams{Tenant: tenant, ID: id, Pool: "default", ModelName: "m7", ModelVersion: "v1"})
	_, _ = q.GetReservation(ctx, sqlitequery.GetReservationParams{Tenant: tenant, ID: id})
	_, _ = q.CountSubmit(ctx, sqlitequery.CountSubmitParams{Tenant: tenant, ID: id})
	_, _ = q.LiveModelHolder(ctx, sqlitequery.LiveModelHolderParams{Tenant: tenant, ModelName: "m7", ModelVersion: "v1"})
	heads, err := q.OpenHeads(ctx, sqlitequery.OpenHeadsParams{Fits: 5, Old: now})
	must(t, err)
	if len(heads) < 2 {
		t.Fatalf("%d heads of a long queue", len(heads))
	}
	_, _ = q.QueueAfter(ctx, sqlitequery.QueueAfterParams{Tenant: tenant, Priority: 50, Seq: 100, Fits: 5, Old: now, Most: 5, MaxRows: 32})
	_, _ = q.QueueBelow(ctx, sqlitequery.QueueBelowParams{Tenant: tenant, Priority: 50, Fits: 5, Old: now, Most: 5, MaxRows: 32})
	_, _ = q.CountsWaiting(ctx)
	_, _ = q.FirstWaiting(ctx, sqlitequery.FirstWaitingParams{Tenant: tenant, MaxRows: 10})
	// The intents are there already, so the set is refused at its last statement.
	_, _ = q.ReserveSet(ctx, time.Now(), []budget.Request{{Seq: heads[0].Seq}, {Seq: heads[1].Seq}})
	_, _ = q.TakeTenantSlots(ctx, sqlitequery.TakeTenantSlotsParams{Slots: 1, Tenant: tenant})
	_, _ = q.TakePoolSlots(ctx, sqlitequery.TakePoolSlotsParams{Slots: 1, Pool: "default"})
	_, _ = q.ExpireReservations(ctx, now)
	due, err := q.DueIntents(ctx, sqlitequery.DueIntentsParams{Now: now, MaxRows: 10})
	must(t, err)
	must(t, second(q.LeaseIntent(ctx, sqlitequery.LeaseIntentParams{Seq: due[0].Seq, Owner: sql.NullString{String: "r", Valid: true}, Until: at})))
	must(t, second(q.GetIntent(ctx, sqlitequery.GetIntentParams{Seq: due[0].Seq, Tenant: due[0].Tenant, ID: due[0].ID, Op: "apply"})))
	must(t, second(q.MarkDelivered(ctx, sqlitequery.MarkDeliveredParams{Now: at, Seq: due[0].Seq})))
	_, _ = q.SupersedeApplies(ctx, sqlitequery.SupersedeAppliesParams{Now: at, Tenant: tenant, ID: id})
	_, _ = q.IntentsOf(ctx, sqlitequery.IntentsOfParams{Tenant: tenant, ID: id})
	_, _ = q.AskRelease(ctx, sqlitequery.AskReleaseParams{Now: at, Tenant: tenant, ID: id})
	_, _ = q.ReleaseReservation(ctx, sqlitequery.ReleaseReservationParams{Now: at, Tenant: tenant, ID: id, Revision: 3})
	_, _ = q.JournalOf(ctx, sqlitequery.JournalOfParams{Tenant: tenant, ID: id})
	_, _ = q.ListReservations(ctx, sqlitequery.ListReservationsParams{AfterSeq: 7000, MaxRows: 50})
	_, _ = q.ListTenantReservations(ctx, sqlitequery.ListTenantReservationsParams{Tenant: tenant, AfterSeq: 7000, State: "waiting", MaxRows: 50})
	_, _ = q.ListReleasing(ctx, sqlitequery.ListReleasingParams{MaxRows: 50})
	_, _ = q.AmendReservation(ctx, sqlitequery.AmendReservationParams{Tenant: tenant, ID: id, Revision: 3, Spec: []byte("{}"), Need: 1})
	_, _ = q.IntendApply(ctx, sqlitequery.IntendApplyParams{Now: now, Seq: heads[0].Seq})
	_, _ = q.CreditShrunk(ctx, sqlitequery.CreditShrunkParams{Tenant: tenant, ID: id, Revision: 3})
	_, _ = q.ListShrinking(ctx, sqlitequery.ListShrinkingParams{MaxRows: 50})
	_, _ = q.InferencesOf(ctx, sqlitequery.InferencesOfParams{Owner: tenant, ReservationID: id, Limit: 10})
	_, _ = q.PruneByAge(ctx, 1)
	_, _ = q.PruneTenantFrom(ctx, sqlitequery.PruneTenantFromParams{Tenant: tenant, ReceivedAt: 1, RequestID: "r"})
	_, _ = q.BindingsByObject(ctx, sqlitequery.BindingsByObjectParams{Uid: "u1", Namespace: "models", Name: "md-u1"})
	must(t, second(q.LiveBindings(ctx)))
	must(t, second(q.LedgerIdentity(ctx, sqlitequery.LedgerIdentityParams{IncarnationKey: "incarnation", FloorKey: "journal-floor"})))
	must(t, second(q.CountRequests(ctx, tenant)))
	must(t, second(q.CountWaiting(ctx, tenant)))
	must(t, second(q.CountGrants(ctx, tenant)))
	must(t, second(q.DropTenantAudit(ctx, sqlitequery.DropTenantAuditParams{})))
	must(t, second(q.AuditBefore(ctx, sqlitequery.AuditBeforeParams{Seq: 100, Limit: 10})))
	must(t, second(q.DropOtherAudit(ctx, 0)))
	_, _ = q.GetBinding(ctx, sqlitequery.GetBindingParams{Tenant: tenant, ID: "old7"})
}
