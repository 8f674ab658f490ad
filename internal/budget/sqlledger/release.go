package sqlledger

import (
	"context"
	"fmt"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
)

// load reads one reservation inside a transaction.
func load(ctx context.Context, t *transaction, ref budget.Ref) (budget.Reservation, error) {
	row, err := t.q.GetReservation(ctx, sqlitequery.GetReservationParams{Tenant: ref.Tenant, ID: ref.ID})
	if err != nil {
		return budget.Reservation{}, found(err)
	}
	return reservation(row)
}

// RequestRelease cancels a waiting request, or records the wish and writes
// the delete intent of a reserved one.
func (l *Ledger) RequestRelease(ctx context.Context, ref budget.Ref) (budget.Reservation, error) {
	return change(ctx, l, "request the release", func(ctx context.Context, t *transaction) (budget.Reservation, error) {
		r, err := load(ctx, t, ref)
		if err != nil {
			return r, err
		}
		var row sqlitequery.Reservation
		switch budget.NextRelease(r) {
		case budget.ReleaseCancel:
			row, err = t.q.CancelReservation(ctx, sqlitequery.CancelReservationParams{Now: nullMicros(t.now), Tenant: ref.Tenant, ID: ref.ID})
		case budget.ReleaseDelete:
			row, err = t.q.AskRelease(ctx, sqlitequery.AskReleaseParams{Now: nullMicros(t.now), Tenant: ref.Tenant, ID: ref.ID})
			if err == nil {
				err = exactlyOne(t.q.IntendDelete(ctx, sqlitequery.IntendDeleteParams{Now: micros(t.now), Seq: r.Seq}))
			}
		default:
			return r, nil
		}
		if err != nil {
			return r, fmt.Errorf("move request %s/%s towards its release: %w", ref.Tenant, ref.ID, err)
		}
		t.changed("request", ref, row.Revision)
		return reservation(row)
	})
}

// Credit gives the slots back, once.
func (l *Ledger) Credit(ctx context.Context, ref budget.Ref, force bool) (budget.Reservation, error) {
	return change(ctx, l, "credit", func(ctx context.Context, t *transaction) (budget.Reservation, error) {
		r, err := load(ctx, t, ref)
		if err != nil || r.State == budget.Released {
			return r, err
		}
		all, err := intentsOf(ctx, t, ref)
		if err != nil {
			return r, err
		}
		if err := budget.Creditable(r, all, t.now, force); err != nil {
			return r, refuse(err)
		}
		return credit(ctx, t, r)
	})
}

// credit is the one transition reserved → released, by compare-and-set on the
// revision; the journal's constraints make a second one impossible.
func credit(ctx context.Context, t *transaction, r budget.Reservation) (budget.Reservation, error) {
	row, err := t.q.ReleaseReservation(ctx, sqlitequery.ReleaseReservationParams{Now: nullMicros(t.now), Tenant: r.Tenant, ID: r.ID, Revision: r.Revision})
	if err != nil {
		return r, fmt.Errorf("release request %s/%s: %w", r.Tenant, r.ID, err)
	}
	if err := journal(ctx, t, r, budget.OpRelease, row.Revision, -r.Held); err != nil {
		return r, err
	}
	if err := give(ctx, t, r, r.Held); err != nil {
		return r, err
	}
	t.changed("request", r.Ref, row.Revision)
	return reservation(row)
}
