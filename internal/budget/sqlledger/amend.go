package sqlledger

import (
	"context"
	"encoding/json"
	"fmt"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
)

// Patch changes parts of a live request's model, with what that funds.
func (l *Ledger) Patch(ctx context.Context, ref budget.Ref, p budget.Patch) (budget.Reservation, error) {
	return l.amend(ctx, "patch", ref, func(r budget.Reservation) (budget.Amendment, error) { return budget.NextPatch(r, p) })
}

// Grow funds replicas in all.
func (l *Ledger) Grow(ctx context.Context, ref budget.Ref, replicas int) (budget.Reservation, error) {
	return l.amend(ctx, "grow", ref, func(r budget.Reservation) (budget.Amendment, error) { return budget.NextGrow(r, replicas) })
}

// Shrink lowers the funded replicas; their slots stay held.
func (l *Ledger) Shrink(ctx context.Context, ref budget.Ref, replicas int) (budget.Reservation, error) {
	return l.amend(ctx, "shrink", ref, func(r budget.Reservation) (budget.Amendment, error) { return budget.NextShrink(r, replicas) })
}

// amend makes the next generation of one reservation, as decide says.
func (l *Ledger) amend(ctx context.Context, what string, ref budget.Ref, decide func(budget.Reservation) (budget.Amendment, error)) (budget.Reservation, error) {
	return change(ctx, l, what, func(ctx context.Context, t *transaction) (budget.Reservation, error) {
		r, err := load(ctx, t, ref)
		if err != nil {
			return r, err
		}
		next, err := decide(r)
		if err != nil {
			return r, refuse(err)
		}
		if !next.Changes(r) {
			return r, nil
		}
		if err := l.leavesRoom(ctx, t, r, next); err != nil {
			return r, err
		}
		return amend(ctx, t, r, next)
	})
}

// leavesRoom asks the queue whether the slots that a growth takes are free.
func (l *Ledger) leavesRoom(ctx context.Context, t *transaction, r budget.Reservation, next budget.Amendment) error {
	if next.Take == 0 {
		return nil
	}
	queue, err := l.figures(ctx, t)
	if err != nil {
		return err
	}
	waiting, err := openQueue(ctx, t.q, queue, t.now.Add(-l.opts.HeadWait))
	if err != nil {
		return err
	}
	blocked := queue.Grows(waiting.requests, r, next)
	if waiting.err != nil {
		return fmt.Errorf("read the queue: %w", waiting.err)
	}
	if blocked != nil {
		return refuse(blocked)
	}
	return nil
}

// amend writes the next generation: the row by compare-and-set on the
// revision, the journal, the outbox, the tenant, and the pool last.
func amend(ctx context.Context, t *transaction, r budget.Reservation, next budget.Amendment) (budget.Reservation, error) {
	spec, err := json.Marshal(next.Model)
	if err != nil {
		return r, fmt.Errorf("encode the model: %w", err)
	}
	row, err := t.q.AmendReservation(ctx, sqlitequery.AmendReservationParams{
		Spec: spec, Need: r.Cost * int64(next.Model.Replicas.Funded()), Take: next.Take, Funded: int64(next.Funded),
		Tenant: r.Tenant, ID: r.ID, Revision: r.Revision,
	})
	if err != nil {
		return r, fmt.Errorf("write generation %d of request %s/%s: %w", r.Generation+1, r.Tenant, r.ID, err)
	}
	t.changed("request", r.Ref, row.Revision)
	if r.State == budget.Reserved {
		if next.Take > 0 {
			if err := journal(ctx, t, r, budget.OpGrow, row.Revision, next.Take); err != nil {
				return r, err
			}
		}
		if err := exactlyOne(t.q.IntendApply(ctx, sqlitequery.IntendApplyParams{Now: micros(t.now), Seq: r.Seq})); err != nil {
			return r, fmt.Errorf("write the apply intent of request %s/%s: %w", r.Tenant, r.ID, err)
		}
		if next.Take > 0 {
			if err := take(ctx, t, r, next.Take); err != nil {
				return r, err
			}
		}
	}
	return reservation(row)
}

func journal(ctx context.Context, t *transaction, r budget.Reservation, op budget.Op, revision, slots int64) error {
	err := t.q.AppendJournal(ctx, sqlitequery.AppendJournalParams{
		Tenant: r.Tenant, ID: r.ID, Pool: r.Pool, Op: string(op), Revision: revision, Slots: slots, At: micros(t.now),
	})
	if err != nil {
		return fmt.Errorf("journal the %s of request %s/%s: %w", op, r.Tenant, r.ID, err)
	}
	return nil
}

// take debits a growth; the conditional updates stay the authority over the caps.
func take(ctx context.Context, t *transaction, r budget.Reservation, slots int64) error {
	if err := exactlyOne(t.q.TakeTenantSlots(ctx, sqlitequery.TakeTenantSlotsParams{Slots: slots, Tenant: r.Tenant})); err != nil {
		return fmt.Errorf("take %d slots of tenant %s: %w", slots, r.Tenant, err)
	}
	if err := exactlyOne(t.q.TakePoolSlots(ctx, sqlitequery.TakePoolSlotsParams{Slots: slots, Pool: r.Pool})); err != nil {
		return fmt.Errorf("take %d slots of pool %s: %w", slots, r.Pool, err)
	}
	t.changed("quota", budget.Ref{Tenant: r.Tenant}, 0)
	t.changed("quota", budget.Ref{ID: r.Pool}, 0)
	return nil
}

// give credits slots that nothing holds any more.
func give(ctx context.Context, t *transaction, r budget.Reservation, slots int64) error {
	if err := exactlyOne(t.q.GiveTenantSlots(ctx, sqlitequery.GiveTenantSlotsParams{Slots: slots, Tenant: r.Tenant})); err != nil {
		return fmt.Errorf("give %d slots back to tenant %s: %w", slots, r.Tenant, err)
	}
	if err := exactlyOne(t.q.GivePoolSlots(ctx, sqlitequery.GivePoolSlotsParams{Slots: slots, Pool: r.Pool})); err != nil {
		return fmt.Errorf("give %d slots back to pool %s: %w", slots, r.Pool, err)
	}
	t.changed("quota", budget.Ref{Tenant: r.Tenant}, 0)
	t.changed("quota", budget.Ref{ID: r.Pool}, 0)
	return nil
}

// CreditShrink gives back, once, what is held beyond the funded replicas.
func (l *Ledger) CreditShrink(ctx context.Context, ref budget.Ref, generation int64) (budget.Reservation, error) {
	return change(ctx, l, "credit a shrink", func(ctx context.Context, t *transaction) (budget.Reservation, error) {
		r, err := load(ctx, t, ref)
		if err != nil || r.Surplus() == 0 {
			return r, err
		}
		all, err := intentsOf(ctx, t, ref)
		if err != nil {
			return r, err
		}
		if err := budget.ShrinkCreditable(r, all, generation, t.now); err != nil {
			return r, refuse(err)
		}
		row, err := t.q.CreditShrunk(ctx, sqlitequery.CreditShrunkParams{Tenant: r.Tenant, ID: r.ID, Revision: r.Revision})
		if err != nil {
			return r, fmt.Errorf("lower what request %s/%s holds: %w", r.Tenant, r.ID, err)
		}
		if err := journal(ctx, t, r, budget.OpShrink, row.Revision, -r.Surplus()); err != nil {
			return r, err
		}
		if err := give(ctx, t, r, r.Surplus()); err != nil {
			return r, err
		}
		t.changed("request", r.Ref, row.Revision)
		return reservation(row)
	})
}

func intentsOf(ctx context.Context, t *transaction, ref budget.Ref) ([]budget.Intent, error) {
	rows, err := t.q.IntentsOf(ctx, sqlitequery.IntentsOfParams{Tenant: ref.Tenant, ID: ref.ID})
	if err != nil {
		return nil, fmt.Errorf("read the intents: %w", err)
	}
	return intents(rows)
}
