package scaler

import (
	"context"
	"errors"
	"fmt"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/elastic"
)

// fund has the ledger pay for what was decided. Where it does not pay for all
// of it, as much as there is is taken, and again decides within that. r gets
// the number of replicas that are funded now.
func (s *Scaler) fund(ctx context.Context, r *budget.Reservation, d elastic.Decision, again func(elastic.Budget) elastic.Decision) (elastic.Decision, error) {
	if d.Replicas <= r.Funded {
		return d, nil
	}
	grown, err := s.cfg.Ledger.Grow(ctx, r.Ref, d.Replicas)
	if err == nil {
		*r = grown
		return d, nil
	}
	var blocked *budget.BlockedError
	if !errors.As(err, &blocked) {
		return d, err
	}
	if n := affordable(*r, blocked); n > r.Funded {
		if grown, err := s.cfg.Ledger.Grow(ctx, r.Ref, n); err == nil {
			*r = grown
		}
	}
	return again(elastic.Budget{Bounded: true, Funded: r.Funded, Why: blocked.Error()}), nil
}

// affordable is how many replicas the free slots pay for. What is free and
// goes to requests that wait, is not.
func affordable(r budget.Reservation, b *budget.BlockedError) int {
	if b.Reason == budget.QueuedBehind {
		return r.Funded
	}
	free := min(b.TenantCap-b.TenantUsed, b.PoolCap-b.PoolUsed)
	return int((r.Held + max(free, 0)) / r.Cost)
}

// giveBack lets go of what is paid for and not asked for any more, down to
// what a model always holds. Who made room for another model keeps its slots:
// only the card's memory changed hands.
func (s *Scaler) giveBack(ctx context.Context, r budget.Reservation, st delivery.Status, asked int) error {
	n := max(asked, r.Model.Replicas.Funded())
	if n >= r.Funded || yielded(st) {
		return nil
	}
	_, err := s.cfg.Ledger.Shrink(ctx, r.Ref, n)
	if err != nil && !ended(err) {
		return fmt.Errorf("give back replicas of %s/%s: %w", r.Tenant, r.ID, err)
	}
	return nil
}

// ended reports a request that is being released, or is over, since it was read.
func ended(err error) bool {
	return errors.Is(err, budget.ErrReleaseRequested) || errors.Is(err, budget.ErrFinal) || errors.Is(err, budget.ErrNotFound)
}

func yielded(st delivery.Status) bool {
	n := len(st.Scaling)
	return n > 0 && st.Scaling[n-1].Reason == ReasonYielded && st.Scaling[n-1].To == st.Asked
}
