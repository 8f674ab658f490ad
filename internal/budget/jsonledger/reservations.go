package jsonledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"modeldock.io/internal/budget"
)

// Submit stores a waiting reservation or returns the one that is there.
func (l *Ledger) Submit(ctx context.Context, sub budget.Submission) (out budget.Reservation, err error) {
	if err := sub.Validate(); err != nil {
		return out, err
	}
	err = l.update(ctx, func(s *state) error {
		if r := s.reservation(sub.Ref); r != nil {
			if conflict, differs := budget.Differs(*r, sub); differs {
				return conflict
			}
			r.Submits++
			s.changed("request", r.Ref, r.Revision)
			out = *r
			return nil
		}
		if s.pool(sub.Pool) == nil {
			return &budget.UnknownPoolError{Pool: sub.Pool}
		}
		for _, r := range s.Reservations {
			if r.Tenant == sub.Tenant && r.Model.Name == sub.Model.Name && r.Model.Version == sub.Model.Version && !r.State.Final() {
				return &budget.ModelInUseError{Model: r.Model.Name, Version: r.Model.Version, Holder: r.ID}
			}
		}
		if s.tenant(sub.Tenant) == nil {
			s.Tenants = append(s.Tenants, budget.Tenant{Name: sub.Tenant, Engines: []string{}, Pools: []string{}})
			s.changed("quota", budget.Ref{Tenant: sub.Tenant}, 0)
		}
		s.Next.Reservation++
		now := l.now()
		out = budget.Reservation{
			Ref: sub.Ref, Seq: s.Next.Reservation, Revision: 1, Generation: 1, Cost: sub.Cost, Priority: sub.Priority,
			Model: sub.Model, SpecHash: sub.Hash(), State: budget.Waiting, Pool: sub.Pool, Submits: 1,
			CreatedAt: now, ExpiresAt: now.Add(sub.TTL),
		}
		s.Reservations = append(s.Reservations, out)
		s.changed("request", out.Ref, out.Revision)
		return nil
	})
	return orZero(out, err)
}

// orZero keeps a half-made answer from leaving beside an error.
func orZero[T any](out T, err error) (T, error) {
	if err != nil {
		var zero T
		return zero, err
	}
	return out, nil
}

// Get returns one reservation.
func (l *Ledger) Get(ctx context.Context, ref budget.Ref) (out budget.Reservation, err error) {
	err = l.view(ctx, func(s *state) error {
		r := s.reservation(ref)
		if r == nil {
			return budget.ErrNotFound
		}
		out = *r
		return nil
	})
	return out, err
}

// List returns reservations in arrival order.
func (l *Ledger) List(ctx context.Context, f budget.Filter) (out []budget.Reservation, err error) {
	err = l.view(ctx, func(s *state) error {
		for _, r := range s.Reservations {
			switch {
			case f.Tenant != "" && r.Tenant != f.Tenant,
				f.State != "" && r.State != f.State,
				f.Model != "" && r.Model.Name != f.Model,
				r.Seq <= f.AfterSeq,
				f.ReleasePending && (r.State != budget.Reserved || r.ReleaseRequestedAt.IsZero()),
				f.ShrinkPending && (r.State != budget.Reserved || !r.ReleaseRequestedAt.IsZero() || r.Held == r.Cost*int64(r.Funded)):
				continue
			}
			if f.Limit > 0 && len(out) == f.Limit {
				break
			}
			out = append(out, r)
		}
		return nil
	})
	return out, err
}

// Waiting returns the requests that wait, most of them at most.
func (l *Ledger) Waiting(ctx context.Context, most int) (out budget.Waiters, err error) {
	err = l.view(ctx, func(s *state) error {
		queues, held := map[string][]budget.Reservation{}, map[string]int64{}
		for _, r := range s.Reservations {
			if r.State == budget.Waiting {
				queues[r.Tenant], held[r.Tenant] = append(queues[r.Tenant], r), held[r.Tenant]+1
			}
		}
		out, err = budget.PickWaiters(held, most, func(tenant string, n int64) ([]budget.Reservation, error) {
			queue := queues[tenant]
			slices.SortFunc(queue, func(a, b budget.Reservation) int {
				return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Seq, b.Seq))
			})
			return queue[:n], nil
		})
		return err
	})
	return out, err
}

// Admit takes waiting requests as far as quotas and pools allow.
func (l *Ledger) Admit(ctx context.Context, limit int) (out []budget.Reservation, err error) {
	err = l.update(ctx, func(s *state) error {
		now := l.now()
		for _, d := range s.decide(now, l.opts.HeadWait) {
			if d.reason != budget.AwaitingAdmission || (limit > 0 && len(out) == limit) {
				continue
			}
			out = append(out, s.reserve(d.request.Ref, now))
		}
		return nil
	})
	return orZero(out, err)
}

// Expire ends requests that waited too long.
func (l *Ledger) Expire(ctx context.Context) (out []budget.Reservation, err error) {
	err = l.update(ctx, func(s *state) error {
		now := l.now()
		for i := range s.Reservations {
			r := &s.Reservations[i]
			if r.State == budget.Waiting && !r.ExpiresAt.After(now) {
				r.State = budget.Expired
				r.Revision++
				s.changed("request", r.Ref, r.Revision)
				out = append(out, *r)
			}
		}
		return nil
	})
	return orZero(out, err)
}

// RequestRelease cancels a waiting request, or records the wish and writes
// the delete intent of a reserved one.
func (l *Ledger) RequestRelease(ctx context.Context, ref budget.Ref) (out budget.Reservation, err error) {
	err = l.update(ctx, func(s *state) error {
		r := s.reservation(ref)
		if r == nil {
			return budget.ErrNotFound
		}
		now := l.now()
		if r.State == budget.Waiting {
			r.State, r.ReleaseRequestedAt, r.ReleasedAt = budget.Released, now, now
			r.Revision++
			s.changed("request", ref, r.Revision)
		} else if r.State == budget.Reserved && r.ReleaseRequestedAt.IsZero() {
			r.ReleaseRequestedAt = now
			r.Revision++
			s.intend(*r, budget.Delete, 0, now)
			s.changed("request", ref, r.Revision)
		}
		out = *r
		return nil
	})
	return orZero(out, err)
}

// Credit gives the slots back, once.
func (l *Ledger) Credit(ctx context.Context, ref budget.Ref, force bool) (out budget.Reservation, err error) {
	err = l.update(ctx, func(s *state) error {
		r := s.reservation(ref)
		if r == nil {
			return budget.ErrNotFound
		}
		if r.State == budget.Released {
			out = *r
			return nil
		}
		if r.State != budget.Reserved || r.ReleaseRequestedAt.IsZero() {
			return fmt.Errorf("%w: request %s/%s is %s and nobody asked to release it", budget.ErrNotReleasable, ref.Tenant, ref.ID, r.State)
		}
		now := l.now()
		if !force && !s.deletedSafely(ref, now) {
			return fmt.Errorf("%w: the object of request %s/%s may still be there", budget.ErrNotReleasable, ref.Tenant, ref.ID)
		}
		slots := r.Held
		r.State, r.Held, r.Funded, r.ReleasedAt = budget.Released, 0, 0, now
		r.Revision++
		s.move(*r, budget.OpRelease, -slots, now)
		out = *r
		return nil
	})
	return orZero(out, err)
}

// SetNode records where a reservation was placed first.
func (l *Ledger) SetNode(ctx context.Context, ref budget.Ref, node string) error {
	return l.update(ctx, func(s *state) error {
		r := s.reservation(ref)
		if r == nil {
			return budget.ErrNotFound
		}
		if r.Node == "" {
			r.Node = node
		}
		s.changed("request", ref, r.Revision)
		return nil
	})
}

// Journal returns one reservation's debits and credits.
func (l *Ledger) Journal(ctx context.Context, ref budget.Ref) (out []budget.Entry, err error) {
	err = l.view(ctx, func(s *state) error {
		for _, e := range s.Journal {
			if e.Ref == ref {
				out = append(out, e)
			}
		}
		return nil
	})
	return out, err
}
