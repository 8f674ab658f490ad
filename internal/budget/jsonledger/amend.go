package jsonledger

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/modelspec"
)

// alive returns the reservation that may still change.
func (s *state) alive(ref budget.Ref) (*budget.Reservation, error) {
	r := s.reservation(ref)
	if r == nil {
		return nil, budget.ErrNotFound
	}
	if r.State == budget.Released || r.State == budget.Expired {
		return nil, fmt.Errorf("%w: request %s/%s is %s", budget.ErrFinal, ref.Tenant, ref.ID, r.State)
	}
	if !r.ReleaseRequestedAt.IsZero() {
		return nil, fmt.Errorf("%w: request %s/%s is being released", budget.ErrReleaseRequested, ref.Tenant, ref.ID)
	}
	return r, nil
}

// Patch changes parts of a live request's model, with what that funds.
func (l *Ledger) Patch(ctx context.Context, ref budget.Ref, p budget.Patch) (out budget.Reservation, err error) {
	err = l.update(ctx, func(s *state) error {
		r, err := s.alive(ref)
		if err != nil {
			return err
		}
		if r.Generation != p.Generation {
			return &budget.StaleGenerationError{Ref: ref, Have: r.Generation, Got: p.Generation}
		}
		model := p.Of(r.Model)
		if err := model.Validate(); err != nil {
			return err
		}
		funded, before, after := r.Funded, max(1, r.Model.Replicas.Min), max(1, model.Replicas.Min)
		if after > funded || after < before {
			funded = after
		}
		if funded > model.Replicas.Max {
			funded = model.Replicas.Max
		}
		if r.State == budget.Waiting {
			funded = 0
		}
		if err := s.amend(r, model, funded, l.now(), l.opts.HeadWait); err != nil {
			return err
		}
		out = *r
		return nil
	})
	return orZero(out, err)
}

// Grow funds replicas in all.
func (l *Ledger) Grow(ctx context.Context, ref budget.Ref, replicas int) (budget.Reservation, error) {
	return l.resize(ctx, ref, func(r budget.Reservation) (int, error) {
		if replicas > r.Model.Replicas.Max {
			return 0, &budget.ReplicaBoundError{Ref: ref, Asked: replicas, Bound: r.Model.Replicas.Max, Name: "replicas.max"}
		}
		return max(replicas, r.Funded), nil
	})
}

// Shrink lowers the funded replicas; their slots stay held.
func (l *Ledger) Shrink(ctx context.Context, ref budget.Ref, replicas int) (budget.Reservation, error) {
	return l.resize(ctx, ref, func(r budget.Reservation) (int, error) {
		if least := max(1, r.Model.Replicas.Min); replicas < least {
			return 0, &budget.ReplicaBoundError{Ref: ref, Asked: replicas, Bound: least, Name: "max(1, replicas.min)"}
		}
		return min(replicas, r.Funded), nil
	})
}

func (l *Ledger) resize(ctx context.Context, ref budget.Ref, count func(budget.Reservation) (int, error)) (out budget.Reservation, err error) {
	err = l.update(ctx, func(s *state) error {
		r, err := s.alive(ref)
		if err != nil {
			return err
		}
		if r.State == budget.Waiting {
			return fmt.Errorf("%w: request %s/%s waits", budget.ErrNotReserved, ref.Tenant, ref.ID)
		}
		funded, err := count(*r)
		if err != nil {
			return err
		}
		if err := s.amend(r, r.Model, funded, l.now(), l.opts.HeadWait); err != nil {
			return err
		}
		out = *r
		return nil
	})
	return orZero(out, err)
}

// amend makes r's next generation, if anything differs.
func (s *state) amend(r *budget.Reservation, m modelspec.Model, funded int, now time.Time, headWait time.Duration) error {
	if funded == r.Funded && reflect.DeepEqual(m, r.Model) {
		return nil
	}
	more := r.Cost*int64(funded) - r.Held
	if more > 0 {
		if err := s.room(*r, funded, more, now, headWait); err != nil {
			return err
		}
	}
	r.Model, r.Funded = m, funded
	r.Generation++
	r.Revision++
	s.changed("request", r.Ref, r.Revision)
	if more > 0 {
		r.Held += more
		s.move(*r, budget.OpGrow, more, now)
	}
	if r.State == budget.Reserved {
		s.intend(*r, budget.Apply, r.Funded, now)
	}
	return nil
}

// room refuses a growth that the caps cannot take, or that would take what
// goes to somebody who waits.
func (s *state) room(r budget.Reservation, to int, slots int64, now time.Time, headWait time.Duration) error {
	t, p := s.tenant(r.Tenant), s.pool(r.Pool)
	blocked := func(by string, reason budget.Reason) error {
		return &budget.BlockedError{
			Ref: r.Ref, From: r.Funded, To: to, Need: slots, By: by, Reason: reason,
			TenantUsed: t.Used, TenantCap: t.Cap, Pool: p.Name, PoolUsed: p.Used, PoolCap: p.Cap,
		}
	}
	if t.Used+slots > t.Cap {
		return blocked("tenant", budget.QuotaBlocked)
	}
	if p.Used+slots > p.Cap {
		return blocked("pool", budget.PoolBlocked)
	}
	var ofTenant, ofPool int64
	var tenantKept, poolKept bool
	for _, d := range s.decide(now, headWait) {
		old := now.Sub(d.request.CreatedAt) >= headWait
		if d.request.Tenant == r.Tenant {
			tenantKept = tenantKept || old && d.reason == budget.QuotaBlocked
			if d.reason == budget.AwaitingAdmission {
				ofTenant += d.request.Need()
			}
		}
		if d.request.Pool == r.Pool {
			poolKept = poolKept || old && d.reason == budget.PoolBlocked
			if d.reason == budget.AwaitingAdmission {
				ofPool += d.request.Need()
			}
		}
	}
	if poolKept || p.Used+ofPool+slots > p.Cap {
		return blocked("pool", budget.QueuedBehind)
	}
	if tenantKept || t.Used+ofTenant+slots > t.Cap {
		return blocked("tenant", budget.QueuedBehind)
	}
	return nil
}

// CreditShrink gives back, once, what is held beyond the funded replicas.
func (l *Ledger) CreditShrink(ctx context.Context, ref budget.Ref, generation int64) (out budget.Reservation, err error) {
	err = l.update(ctx, func(s *state) error {
		r := s.reservation(ref)
		if r == nil {
			return budget.ErrNotFound
		}
		more := r.Held - r.Cost*int64(r.Funded)
		if more == 0 {
			out = *r
			return nil
		}
		now := l.now()
		if !r.ReleaseRequestedAt.IsZero() || r.Generation != generation || !s.appliedSafely(*r, now) {
			return fmt.Errorf("%w: replicas of request %s/%s beyond the %d that are funded may still be there", budget.ErrNotReleasable, ref.Tenant, ref.ID, r.Funded)
		}
		r.Held -= more
		r.Revision++
		s.move(*r, budget.OpShrink, -more, now)
		out = *r
		return nil
	})
	return orZero(out, err)
}

// appliedSafely: r's generation reached its target and nobody may be applying another.
func (s *state) appliedSafely(r budget.Reservation, now time.Time) bool {
	delivered := false
	for _, in := range s.Outbox {
		if in.Ref != r.Ref || in.Op != budget.Apply {
			continue
		}
		if leased(in, now) {
			return false
		}
		if in.Generation == r.Generation && !in.DeliveredAt.IsZero() {
			delivered = true
		}
	}
	return delivered
}
