package sqlledger

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
)

// incarnationKey names the ledger's random identity in the meta table.
const incarnationKey = "incarnation"

// Verify recomputes every invariant from one snapshot of the rows.
func (l *Ledger) Verify(ctx context.Context) (budget.Report, error) {
	rows, err := view(ctx, l, "verify", func(q queries) (budget.Snapshot, error) {
		rows, err := snapshotRows(ctx, q)
		if err != nil {
			return rows, err
		}
		rows.At, err = l.clock(ctx, q)
		return rows, err
	})
	if err != nil {
		return budget.Report{}, err
	}
	return budget.Verify(rows), nil
}

func snapshotRows(ctx context.Context, q queries) (s budget.Snapshot, err error) {
	tenantRows, err := q.ListTenants(ctx)
	if err != nil {
		return s, fmt.Errorf("read the quotas: %w", err)
	}
	s.Tenants = quotaFigures(tenantRows)
	poolRows, err := q.ListPools(ctx)
	if err != nil {
		return s, fmt.Errorf("read the pools: %w", err)
	}
	s.Pools = poolFigures(poolRows)
	if s.Reservations, err = snapshotReservations(ctx, q); err != nil {
		return s, err
	}
	journal, err := q.AllJournal(ctx)
	if err != nil {
		return s, fmt.Errorf("read the journal: %w", err)
	}
	for _, row := range journal {
		s.Entries = append(s.Entries, entry(row))
	}
	outbox, err := q.SnapshotIntents(ctx)
	if err != nil {
		return s, fmt.Errorf("read the outbox: %w", err)
	}
	for _, row := range outbox {
		s.Intents = append(s.Intents, budget.Intent{
			Ref: budget.Ref{Tenant: row.Tenant, ID: row.ID}, Seq: row.Seq, Op: budget.IntentOp(row.Op),
			Generation: row.Generation, Funded: int(row.Funded), DeliveredAt: nullMoment(row.DeliveredAt),
		})
	}
	bindings, err := q.AllBindings(ctx)
	if err != nil {
		return s, fmt.Errorf("read the bindings: %w", err)
	}
	for _, row := range bindings {
		s.Bindings = append(s.Bindings, binding(row))
	}
	return s, nil
}

// snapshotReservations leaves the models out: no invariant speaks of them.
func snapshotReservations(ctx context.Context, q queries) ([]budget.Reservation, error) {
	rows, err := q.SnapshotReservations(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the reservations: %w", err)
	}
	out := make([]budget.Reservation, 0, len(rows))
	for _, row := range rows {
		out = append(out, budget.Reservation{
			Ref: budget.Ref{Tenant: row.Tenant, ID: row.ID}, Seq: row.Seq, Revision: row.Revision, Generation: row.Generation,
			Cost: row.Cost, Priority: int(row.Priority), State: budget.State(row.State), Pool: row.Pool, Held: row.Held, Funded: int(row.Funded),
			CreatedAt: moment(row.CreatedAt), ReservedAt: nullMoment(row.ReservedAt),
			ReleaseRequestedAt: nullMoment(row.ReleaseRequestedAt), ReleasedAt: nullMoment(row.ReleasedAt), ExpiresAt: moment(row.ExpiresAt),
		})
	}
	return out, nil
}

// AppendAudit remembers a change; a zero time is now.
func (l *Ledger) AppendAudit(ctx context.Context, e budget.AuditEntry) error {
	return l.touch(ctx, "append to the audit", func(ctx context.Context, t *transaction) error {
		when := e.When
		if when.IsZero() {
			when = t.now
		}
		return t.q.AppendAudit(ctx, sqlitequery.AppendAuditParams{Who: e.Who, What: e.What, At: micros(when), Why: e.Why, Result: e.Result, Tenant: e.Tenant, Source: e.Source})
	})
}

// Audit returns the latest changes, newest first.
func (l *Ledger) Audit(ctx context.Context, limit int) ([]budget.AuditEntry, error) {
	return single(ctx, l, "read the audit", func(q queries) ([]budget.AuditEntry, error) {
		return auditEntries(q.LatestAudit(ctx, rowLimit(limit)))
	})
}

// SearchAudit returns one page of the entries that match.
func (l *Ledger) SearchAudit(ctx context.Context, query budget.AuditQuery) (budget.AuditPage, error) {
	rows, err := single(ctx, l, "search the audit", func(q queries) ([]budget.AuditEntry, error) {
		before := query.Before
		if before == 0 {
			before = math.MaxInt64
		}
		return auditEntries(q.AuditBefore(ctx, sqlitequery.AuditBeforeParams{Seq: before, Limit: int64(query.Reads())}))
	})
	return query.Page(rows), err
}

func auditEntries(rows []sqlitequery.Audit, err error) ([]budget.AuditEntry, error) {
	out := make([]budget.AuditEntry, 0, len(rows))
	for _, row := range rows {
		out = append(out, auditEntry(row))
	}
	return out, err
}

func auditEntry(row sqlitequery.Audit) budget.AuditEntry {
	return budget.AuditEntry{Seq: row.Seq, Who: row.Who, What: row.What, When: moment(row.At), Why: row.Why, Result: row.Result, Tenant: row.Tenant, Source: row.Source}
}

// Up to which entry the audit may be forgotten, in the meta table; a trigger
// lets no other go.
const (
	tenantAuditUntil = "audit-of-tenants-until"
	otherAuditUntil  = "audit-of-others-until"
)

// oldAudit is up to which entries the audit is to be forgotten; 0 is none.
type oldAudit struct {
	tenants map[string]int64
	others  int64
}

// PruneAudit forgets all but the newest keep changes of tenants, by their
// shares, and of everybody else. What is too old is looked for beside the
// writer: that may be a long way.
func (l *Ledger) PruneAudit(ctx context.Context, keep int64) error {
	old, err := view(ctx, l, "find the audit's old rows", func(q queries) (oldAudit, error) { return findOldAudit(ctx, q, keep) })
	if err != nil || len(old.tenants) == 0 && old.others == 0 {
		return err
	}
	return l.touch(ctx, "prune the audit", func(ctx context.Context, t *transaction) error {
		latest := int64(0)
		for _, seq := range old.tenants {
			latest = max(latest, seq)
		}
		if err := mayForget(ctx, t, latest, old.others); err != nil {
			return err
		}
		for tenant, seq := range old.tenants {
			if _, err := t.q.DropTenantAudit(ctx, sqlitequery.DropTenantAuditParams{Seq: seq, Tenant: tenant}); err != nil {
				return fmt.Errorf("forget what tenant %s did: %w", tenant, err)
			}
		}
		if _, err := t.q.DropOtherAudit(ctx, old.others); err != nil {
			return fmt.Errorf("forget what others than tenants did: %w", err)
		}
		return mayForget(ctx, t, 0, 0)
	})
}

func findOldAudit(ctx context.Context, q queries, keep int64) (old oldAudit, err error) {
	newest, err := q.LatestAudit(ctx, 1)
	if err != nil || len(newest) == 0 || newest[0].Seq <= keep {
		return old, err
	}
	if old.others, err = firstOf(q.OtherAuditFrom(ctx, sqlitequery.OtherAuditFromParams{Limit: 1, Offset: keep})); err != nil {
		return old, err
	}
	if first, err := firstOf(q.TenantAuditFrom(ctx, sqlitequery.TenantAuditFromParams{Limit: 1, Offset: keep})); err != nil || first == 0 {
		return old, err // there are no more than that
	}
	holders, err := q.TenantAuditHolders(ctx)
	if err != nil {
		return old, fmt.Errorf("count the audit's rows: %w", err)
	}
	held := make([]int64, len(holders))
	for i, h := range holders {
		held[i] = h.Held
	}
	share := budget.AuditShare(held, keep)
	old.tenants = map[string]int64{}
	for _, h := range holders {
		if h.Held <= share {
			continue
		}
		old.tenants[h.Tenant], err = firstOf(q.OneTenantAuditFrom(ctx, sqlitequery.OneTenantAuditFromParams{Tenant: h.Tenant, Limit: 1, Offset: share}))
		if err != nil {
			return old, fmt.Errorf("find the audit's rows of tenant %s: %w", h.Tenant, err)
		}
	}
	return old, nil
}

func mayForget(ctx context.Context, t *transaction, tenants, others int64) error {
	if err := setMeta(ctx, t, tenantAuditUntil, strconv.FormatInt(tenants, 10)); err != nil {
		return err
	}
	return setMeta(ctx, t, otherAuditUntil, strconv.FormatInt(others, 10))
}

// forgetAudit drops all of it, for a copy that takes its place.
func forgetAudit(ctx context.Context, t *transaction) error {
	if err := mayForget(ctx, t, math.MaxInt64, math.MaxInt64); err != nil {
		return err
	}
	if err := t.q.DropAudit(ctx); err != nil {
		return err
	}
	return mayForget(ctx, t, 0, 0)
}

// firstOf is the first number, or 0.
func firstOf(seqs []int64, err error) (int64, error) {
	if err != nil || len(seqs) == 0 {
		return 0, err
	}
	return seqs[0], nil
}

// identity is who the ledger is and how far it has come.
type identity struct {
	incarnation string
	seq         int64 // the highest number given out: by a row, or by a ledger that this one took the place of
}

// Identity returns the incarnation and the highest journal seq. Every round
// of every loop asks for them.
func (l *Ledger) Identity(ctx context.Context) (incarnation string, journalSeq int64, err error) {
	id, err := single(ctx, l, "read the ledger's identity", func(q queries) (identity, error) { return readIdentity(ctx, q) })
	return id.incarnation, id.seq, err
}

func readIdentity(ctx context.Context, q queries) (identity, error) {
	row, err := q.LedgerIdentity(ctx, sqlitequery.LedgerIdentityParams{IncarnationKey: incarnationKey, FloorKey: journalFloorKey})
	if err != nil {
		return identity{}, fmt.Errorf("read the incarnation and the highest journal number: %w", err)
	}
	id := identity{row.Incarnation, row.JournalSeq}
	if row.Floor.Valid {
		floor, err := strconv.ParseInt(row.Floor.String, 10, 64)
		if err != nil {
			return identity{}, fmt.Errorf("read the journal's floor: %w", err)
		}
		id.seq = max(id.seq, floor)
	}
	return id, nil
}
