package sqlledger

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
)

// Admit takes a set of waiting requests in one transaction. Quotas and pools
// are read in it, so that a cap changed by anybody counts at once.
func (l *Ledger) Admit(ctx context.Context, limit int) ([]budget.Reservation, error) {
	return change(ctx, l, "admit", func(ctx context.Context, t *transaction) ([]budget.Reservation, error) {
		queue, err := l.figures(ctx, t)
		if err != nil {
			return nil, err
		}
		if queue.Exhausted() {
			return nil, nil
		}
		waiting, err := openQueue(ctx, t.q, queue, t.now.Add(-l.opts.HeadWait))
		if err != nil {
			return nil, err
		}
		picked := queue.Admissible(waiting.requests, limit)
		if waiting.err != nil {
			return nil, fmt.Errorf("read the queue: %w", waiting.err)
		}
		return reserve(ctx, t, picked)
	})
}

// figures starts a walk of the queue over the quotas and pools as they are now.
func (l *Ledger) figures(ctx context.Context, t *transaction) (*budget.Queue, error) {
	tenantRows, err := t.q.ListTenants(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the quotas: %w", err)
	}
	poolRows, err := t.q.ListPools(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the pools: %w", err)
	}
	return budget.NewQueue(quotaFigures(tenantRows), poolFigures(poolRows), t.now, l.opts.HeadWait), nil
}

// quotaFigures leaves the allow lists out: admission does not look at them.
func quotaFigures(rows []sqlitequery.TenantQuotum) []budget.Tenant {
	out := make([]budget.Tenant, 0, len(rows))
	for _, row := range rows {
		out = append(out, budget.Tenant{Name: row.Tenant, Cap: row.Cap, Used: row.Used})
	}
	return out
}

// poolFigures leaves out what a pool keeps ready, which costs no slots.
func poolFigures(rows []sqlitequery.GpuPool) []budget.Pool {
	out := make([]budget.Pool, 0, len(rows))
	for _, row := range rows {
		out = append(out, budget.Pool{Name: row.Pool, Cap: row.Cap, Used: row.Used})
	}
	return out
}

// reserve writes a set of admissions: rows first, then tenants in key order,
// the pools last. The conditional updates stay the authority over the caps.
func reserve(ctx context.Context, t *transaction, picked []budget.Request) ([]budget.Reservation, error) {
	rows, err := t.q.ReserveSet(ctx, t.now, picked)
	if err != nil {
		return nil, err
	}
	admitted := make([]budget.Reservation, 0, len(rows))
	byTenant, byPool := map[string]int64{}, map[string]int64{}
	for _, row := range rows {
		r, err := reservation(row)
		if err != nil {
			return nil, err
		}
		byTenant[r.Tenant] += r.Held
		byPool[r.Pool] += r.Held
		admitted = append(admitted, r)
		t.changed("request", r.Ref, r.Revision)
	}
	for _, name := range slices.Sorted(maps.Keys(byTenant)) {
		if err := exactlyOne(t.q.TakeTenantSlots(ctx, sqlitequery.TakeTenantSlotsParams{Slots: byTenant[name], Tenant: name})); err != nil {
			return nil, fmt.Errorf("take %d slots of tenant %s: %w", byTenant[name], name, err)
		}
		t.changed("quota", budget.Ref{Tenant: name}, 0)
	}
	for _, name := range slices.Sorted(maps.Keys(byPool)) {
		if err := exactlyOne(t.q.TakePoolSlots(ctx, sqlitequery.TakePoolSlotsParams{Slots: byPool[name], Pool: name})); err != nil {
			return nil, fmt.Errorf("take %d slots of pool %s: %w", byPool[name], name, err)
		}
		t.changed("quota", budget.Ref{ID: name}, 0)
	}
	return admitted, nil
}

// Expire ends requests that waited too long.
func (l *Ledger) Expire(ctx context.Context) ([]budget.Reservation, error) {
	return change(ctx, l, "expire", func(ctx context.Context, t *transaction) ([]budget.Reservation, error) {
		rows, err := t.q.ExpireReservations(ctx, micros(t.now))
		if err != nil {
			return nil, err
		}
		// RETURNING promises no order.
		slices.SortFunc(rows, func(a, b sqlitequery.Reservation) int { return int(a.Seq - b.Seq) })
		out, err := reservations(rows)
		if err != nil {
			return nil, err
		}
		for _, r := range out {
			t.changed("request", r.Ref, r.Revision)
		}
		return out, nil
	})
}

// SetNode records where a reservation was placed first.
func (l *Ledger) SetNode(ctx context.Context, ref budget.Ref, node string) error {
	_, err := change(ctx, l, "set node", func(ctx context.Context, t *transaction) (struct{}, error) {
		rows, err := t.q.SetFirstNode(ctx, sqlitequery.SetFirstNodeParams{Node: node, Tenant: ref.Tenant, ID: ref.ID})
		if err == nil && rows == 0 {
			err = found(sql.ErrNoRows)
		}
		t.changed("request", ref, 0)
		return struct{}{}, err
	})
	return err
}
