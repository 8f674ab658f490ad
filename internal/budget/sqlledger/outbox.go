package sqlledger

import (
	"context"
	"fmt"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
)

// Claim leases due intents, at most one per reservation.
func (l *Ledger) Claim(ctx context.Context, owner string, n int, lease time.Duration) ([]budget.Intent, error) {
	return change(ctx, l, "claim intents", func(ctx context.Context, t *transaction) ([]budget.Intent, error) {
		due, err := t.q.DueIntents(ctx, sqlitequery.DueIntentsParams{Now: micros(t.now), MaxRows: rowLimit(n)})
		if err != nil {
			return nil, fmt.Errorf("find the due intents: %w", err)
		}
		claimed := make([]budget.Intent, 0, len(due))
		for _, row := range due {
			if budget.IntentOp(row.Op) == budget.Delete {
				// Nothing is created any more once the deletion is under way.
				_, err := t.q.SupersedeApplies(ctx, sqlitequery.SupersedeAppliesParams{Now: nullMicros(t.now), Tenant: row.Tenant, ID: row.ID})
				if err != nil {
					return nil, fmt.Errorf("supersede the applies of request %s/%s: %w", row.Tenant, row.ID, err)
				}
			}
			leased, err := t.q.LeaseIntent(ctx, sqlitequery.LeaseIntentParams{Owner: text(owner), Until: nullMicros(t.now.Add(lease)), Seq: row.Seq})
			if err != nil {
				return nil, fmt.Errorf("lease outbox row %d: %w", row.Seq, err)
			}
			in, err := intent(leased)
			if err != nil {
				return nil, err
			}
			claimed = append(claimed, in)
		}
		return claimed, nil
	})
}

// Delivered binds the object of an apply and marks it delivered. Its refusals
// after a release are part of the answer: the superseding is committed.
func (l *Ledger) Delivered(ctx context.Context, in budget.Intent, obj budget.Object) error {
	answer, err := change(ctx, l, "mark the apply delivered", func(ctx context.Context, t *transaction) (error, error) {
		row, err := loadIntent(ctx, t, in, budget.Apply)
		if err != nil {
			return nil, err
		}
		r, err := load(ctx, t, in.Ref)
		if err != nil {
			return nil, err
		}
		bound, known, err := boundTo(ctx, t, in.Ref)
		if err != nil {
			return nil, err
		}
		switch {
		case !row.DeliveredAt.IsZero() && row.LastError == "" && known && bound.UID == obj.UID:
			return nil, nil // a repeated report of what is already known
		case r.State != budget.Reserved || !r.ReleaseRequestedAt.IsZero():
			return budget.ErrReleaseRequested, supersede(ctx, t, row, in.LeaseOwner)
		case !row.DeliveredAt.IsZero() || row.LeaseOwner != in.LeaseOwner:
			return nil, refuse(leaseLost(row, in))
		case known && bound.UID != obj.UID:
			return nil, refuse(&budget.BoundElsewhereError{Ref: in.Ref, Have: bound.Object, Got: obj})
		}
		if !known {
			if err := bind(ctx, t, in.Ref, obj); err != nil {
				return nil, err
			}
		}
		t.changed("request", in.Ref, r.Revision)
		return nil, delivered(ctx, t, row.Seq, "")
	})
	if err != nil {
		return err
	}
	return answer
}

// supersede ends an apply that a release overtook, if the reporter holds it.
func supersede(ctx context.Context, t *transaction, row budget.Intent, owner string) error {
	if !row.DeliveredAt.IsZero() || row.LeaseOwner != owner {
		return nil
	}
	t.changed("request", row.Ref, 0)
	return delivered(ctx, t, row.Seq, budget.Superseded)
}

func delivered(ctx context.Context, t *transaction, seq int64, note string) error {
	err := exactlyOne(t.q.MarkDelivered(ctx, sqlitequery.MarkDeliveredParams{Now: nullMicros(t.now), LastError: text(note), Seq: seq}))
	if err != nil {
		return fmt.Errorf("mark outbox row %d delivered: %w", seq, err)
	}
	return nil
}

// DeleteDelivered marks a delete as accepted by the target.
func (l *Ledger) DeleteDelivered(ctx context.Context, in budget.Intent) error {
	_, err := change(ctx, l, "mark the delete delivered", func(ctx context.Context, t *transaction) (struct{}, error) {
		row, err := loadIntent(ctx, t, in, budget.Delete)
		switch {
		case err != nil:
			return struct{}{}, err
		case !row.DeliveredAt.IsZero():
			return struct{}{}, nil
		case row.LeaseOwner != in.LeaseOwner:
			return struct{}{}, refuse(leaseLost(row, in))
		}
		t.changed("request", in.Ref, 0)
		return struct{}{}, delivered(ctx, t, row.Seq, "")
	})
	return err
}

// Defer gives a row back after a failure.
func (l *Ledger) Defer(ctx context.Context, in budget.Intent, cause string, wait time.Duration) error {
	_, err := change(ctx, l, "defer the intent", func(ctx context.Context, t *transaction) (struct{}, error) {
		row, err := loadIntent(ctx, t, in, in.Op)
		if err != nil {
			return struct{}{}, err
		}
		if !row.DeliveredAt.IsZero() || row.LeaseOwner != in.LeaseOwner {
			return struct{}{}, refuse(leaseLost(row, in))
		}
		t.changed("request", in.Ref, 0)
		return struct{}{}, exactlyOne(t.q.DeferIntent(ctx, sqlitequery.DeferIntentParams{
			NextAttemptAt: micros(t.now.Add(wait)), LastError: text(cause), Seq: row.Seq,
		}))
	})
	return err
}

// Intents returns one reservation's outbox rows.
func (l *Ledger) Intents(ctx context.Context, ref budget.Ref) ([]budget.Intent, error) {
	return single(ctx, l, "read the intents", func(q queries) ([]budget.Intent, error) {
		rows, err := q.IntentsOf(ctx, sqlitequery.IntentsOfParams{Tenant: ref.Tenant, ID: ref.ID})
		if err != nil {
			return nil, err
		}
		return intents(rows)
	})
}

func loadIntent(ctx context.Context, t *transaction, in budget.Intent, op budget.IntentOp) (budget.Intent, error) {
	row, err := t.q.GetIntent(ctx, sqlitequery.GetIntentParams{Seq: in.Seq, Tenant: in.Tenant, ID: in.ID, Op: string(op)})
	if err != nil {
		return budget.Intent{}, found(err)
	}
	return intent(row)
}

func leaseLost(row, in budget.Intent) error {
	if !row.DeliveredAt.IsZero() {
		return fmt.Errorf("%w: %s of request %s/%s was delivered at %s", budget.ErrLeaseLost, row.Op, row.Tenant, row.ID, row.DeliveredAt.Format(time.RFC3339))
	}
	holder := "nobody"
	if row.LeaseOwner != "" {
		holder = row.LeaseOwner
	}
	return fmt.Errorf("%w: %s of request %s/%s is leased by %s, not by %s", budget.ErrLeaseLost, row.Op, row.Tenant, row.ID, holder, in.LeaseOwner)
}
