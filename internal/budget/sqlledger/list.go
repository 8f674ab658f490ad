package sqlledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
)

// Get returns one reservation.
func (l *Ledger) Get(ctx context.Context, ref budget.Ref) (budget.Reservation, error) {
	return single(ctx, l, "get", func(q queries) (budget.Reservation, error) {
		row, err := q.GetReservation(ctx, sqlitequery.GetReservationParams{Tenant: ref.Tenant, ID: ref.ID})
		if err != nil {
			return budget.Reservation{}, found(err)
		}
		return reservation(row)
	})
}

// List returns reservations in arrival order.
func (l *Ledger) List(ctx context.Context, f budget.Filter) ([]budget.Reservation, error) {
	if (f.ReleasePending || f.ShrinkPending) && f.State != "" && f.State != budget.Reserved {
		return nil, nil // only reserved ones can await their release, or a shrink's credit
	}
	if f.ReleasePending && f.ShrinkPending {
		return nil, nil // a release gives back the shrink's slots too
	}
	return single(ctx, l, "list", func(q queries) ([]budget.Reservation, error) {
		rows, err := list(ctx, q, f)
		if err != nil {
			return nil, err
		}
		return reservations(rows)
	})
}

func list(ctx context.Context, q queries, f budget.Filter) ([]sqlitequery.Reservation, error) {
	limit := rowLimit(f.Limit)
	switch {
	case f.ReleasePending:
		return q.ListReleasing(ctx, sqlitequery.ListReleasingParams{AfterSeq: f.AfterSeq, Tenant: f.Tenant, Model: f.Model, MaxRows: limit})
	case f.ShrinkPending:
		return q.ListShrinking(ctx, sqlitequery.ListShrinkingParams{AfterSeq: f.AfterSeq, Tenant: f.Tenant, Model: f.Model, MaxRows: limit})
	case f.Tenant != "":
		return q.ListTenantReservations(ctx, sqlitequery.ListTenantReservationsParams{Tenant: f.Tenant, AfterSeq: f.AfterSeq, State: string(f.State), Model: f.Model, MaxRows: limit})
	}
	return q.ListReservations(ctx, sqlitequery.ListReservationsParams{AfterSeq: f.AfterSeq, State: string(f.State), Model: f.Model, MaxRows: limit})
}

// Waiting returns the requests that wait, most of them at most. It reads the
// rows of those that it returns, and counts the others by an index.
func (l *Ledger) Waiting(ctx context.Context, most int) (budget.Waiters, error) {
	return view(ctx, l, "list the waiting requests", func(q queries) (out budget.Waiters, err error) {
		counts, err := q.CountsWaiting(ctx)
		if err != nil {
			return out, err
		}
		waiting := map[string]int64{}
		for _, c := range counts {
			if c.Waiting > 0 {
				waiting[c.Tenant] = c.Waiting
			}
		}
		return budget.PickWaiters(waiting, most, func(tenant string, n int64) ([]budget.Reservation, error) {
			rows, err := q.FirstWaiting(ctx, sqlitequery.FirstWaitingParams{Tenant: tenant, MaxRows: n})
			if err != nil {
				return nil, fmt.Errorf("read the head of the queue of tenant %s: %w", tenant, err)
			}
			return reservations(rows)
		})
	})
}

// rowLimit is a LIMIT: 0 or less means none.
func rowLimit(n int) int64 {
	if n <= 0 {
		return math.MaxInt64
	}
	return int64(n)
}

// Journal returns one reservation's debits and credits.
func (l *Ledger) Journal(ctx context.Context, ref budget.Ref) ([]budget.Entry, error) {
	return single(ctx, l, "read the journal", func(q queries) ([]budget.Entry, error) {
		rows, err := q.JournalOf(ctx, sqlitequery.JournalOfParams{Tenant: ref.Tenant, ID: ref.ID})
		if err != nil {
			return nil, err
		}
		out := make([]budget.Entry, 0, len(rows))
		for _, row := range rows {
			out = append(out, entry(row))
		}
		return out, nil
	})
}

// absent reports whether a query found nothing.
func absent(err error) bool { return errors.Is(err, sql.ErrNoRows) }
