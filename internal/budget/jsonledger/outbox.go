package jsonledger

import (
	"context"
	"fmt"
	"sort"
	"time"

	"modeldock.io/internal/budget"
)

// intend writes an outbox row.
func (s *state) intend(r budget.Reservation, op budget.IntentOp, funded int, now time.Time) {
	s.Next.Outbox++
	s.Outbox = append(s.Outbox, budget.Intent{
		Ref: r.Ref, Seq: s.Next.Outbox, Op: op, Generation: r.Generation, Model: r.Model, Funded: funded, NextAttemptAt: now,
	})
}

// undelivered lists the open rows of one reservation.
func (s *state) undelivered(ref budget.Ref) []*budget.Intent {
	var open []*budget.Intent
	for i := range s.Outbox {
		if s.Outbox[i].Ref == ref && s.Outbox[i].DeliveredAt.IsZero() {
			open = append(open, &s.Outbox[i])
		}
	}
	return open
}

// deletedSafely: the delete reached its target and nobody may be creating.
func (s *state) deletedSafely(ref budget.Ref, now time.Time) bool {
	deleted := false
	for _, in := range s.Outbox {
		if in.Ref == ref && in.Op == budget.Delete && !in.DeliveredAt.IsZero() {
			deleted = true
		}
		if in.Ref == ref && in.Op == budget.Apply && leased(in, now) {
			return false
		}
	}
	return deleted
}

func leased(in budget.Intent, now time.Time) bool {
	return in.DeliveredAt.IsZero() && in.LeaseOwner != "" && in.LeaseUntil.After(now)
}

// Claim leases due intents, at most one per reservation.
func (l *Ledger) Claim(ctx context.Context, owner string, n int, lease time.Duration) (out []budget.Intent, err error) {
	err = l.update(ctx, func(s *state) error {
		now := l.now()
		var due []*budget.Intent
		for i := range s.Outbox {
			if s.claimable(s.Outbox[i], now) {
				due = append(due, &s.Outbox[i])
			}
		}
		sort.SliceStable(due, func(i, j int) bool { return due[i].NextAttemptAt.Before(due[j].NextAttemptAt) })
		for _, in := range due {
			if n > 0 && len(out) == n {
				break
			}
			if in.Op == budget.Delete {
				for _, other := range s.undelivered(in.Ref) {
					if other.Op == budget.Apply {
						deliver(other, now, budget.Superseded)
					}
				}
			}
			in.LeaseOwner, in.LeaseUntil = owner, now.Add(lease)
			in.Attempts++
			out = append(out, *in)
		}
		return nil
	})
	return orZero(out, err)
}

func (s *state) claimable(in budget.Intent, now time.Time) bool {
	if !in.DeliveredAt.IsZero() || in.NextAttemptAt.After(now) || leased(in, now) {
		return false
	}
	for _, other := range s.undelivered(in.Ref) {
		if other.Seq == in.Seq {
			continue
		}
		if leased(*other, now) {
			return false // one at a time
		}
		if in.Op == budget.Apply && (other.Op == budget.Delete || other.Seq < in.Seq) {
			return false // overtaken by a release, or not its turn
		}
	}
	return true
}

func deliver(in *budget.Intent, now time.Time, note string) {
	in.DeliveredAt, in.LastError = now, note
	in.LeaseOwner, in.LeaseUntil = "", time.Time{}
}

// intent finds a row by what identifies it.
func (s *state) intent(in budget.Intent, op budget.IntentOp) *budget.Intent {
	for i := range s.Outbox {
		if row := &s.Outbox[i]; row.Seq == in.Seq && row.Ref == in.Ref && row.Op == op {
			return row
		}
	}
	return nil
}

// Delivered binds the object of an apply and marks it delivered.
func (l *Ledger) Delivered(ctx context.Context, in budget.Intent, obj budget.Object) error {
	var answer error
	err := l.update(ctx, func(s *state) error {
		row, r, b := s.intent(in, budget.Apply), s.reservation(in.Ref), s.binding(in.Ref)
		if row == nil || r == nil {
			return budget.ErrNotFound
		}
		holds := row.DeliveredAt.IsZero() && row.LeaseOwner == in.LeaseOwner
		if !row.DeliveredAt.IsZero() && row.LastError == "" && b != nil && b.UID == obj.UID {
			return nil
		}
		now := l.now()
		if r.State != budget.Reserved || !r.ReleaseRequestedAt.IsZero() {
			answer = budget.ErrReleaseRequested
			if holds {
				deliver(row, now, budget.Superseded)
				s.changed("request", in.Ref, r.Revision)
			}
			return nil
		}
		if !holds {
			return fmt.Errorf("%w: %s of request %s/%s", budget.ErrLeaseLost, row.Op, in.Tenant, in.ID)
		}
		if b != nil && b.UID != obj.UID {
			return &budget.BoundElsewhereError{Ref: in.Ref, Have: b.Object, Got: obj}
		}
		if b == nil {
			if err := s.bind(in.Ref, obj, now); err != nil {
				return err
			}
		}
		deliver(row, now, "")
		s.changed("request", in.Ref, r.Revision)
		return nil
	})
	if err != nil {
		return err
	}
	return answer
}

// bind refuses an object whose UID, or else whose name, another one has.
func (s *state) bind(ref budget.Ref, obj budget.Object, now time.Time) error {
	for _, same := range []func(budget.Binding) bool{
		func(b budget.Binding) bool { return b.UID == obj.UID },
		func(b budget.Binding) bool { return b.Namespace == obj.Namespace && b.Name == obj.Name },
	} {
		for _, b := range s.Bindings {
			if same(b) {
				return &budget.BoundElsewhereError{Ref: b.Ref, Have: b.Object, Got: obj}
			}
		}
	}
	s.Bindings = append(s.Bindings, budget.Binding{Ref: ref, Object: obj, BoundAt: now})
	return nil
}

// DeleteDelivered marks a delete as accepted by the target.
func (l *Ledger) DeleteDelivered(ctx context.Context, in budget.Intent) error {
	return l.update(ctx, func(s *state) error {
		row := s.intent(in, budget.Delete)
		switch {
		case row == nil:
			return budget.ErrNotFound
		case !row.DeliveredAt.IsZero():
			return nil
		case row.LeaseOwner != in.LeaseOwner:
			return fmt.Errorf("%w: %s of request %s/%s", budget.ErrLeaseLost, row.Op, in.Tenant, in.ID)
		}
		deliver(row, l.now(), "")
		s.changed("request", in.Ref, 0)
		return nil
	})
}

// Defer gives a row back after a failure.
func (l *Ledger) Defer(ctx context.Context, in budget.Intent, cause string, wait time.Duration) error {
	return l.update(ctx, func(s *state) error {
		row := s.intent(in, in.Op)
		if row == nil {
			return budget.ErrNotFound
		}
		if !row.DeliveredAt.IsZero() || row.LeaseOwner != in.LeaseOwner {
			return fmt.Errorf("%w: %s of request %s/%s", budget.ErrLeaseLost, row.Op, in.Tenant, in.ID)
		}
		row.LeaseOwner, row.LeaseUntil = "", time.Time{}
		row.NextAttemptAt, row.LastError = l.now().Add(wait), cause
		s.changed("request", in.Ref, 0)
		return nil
	})
}

// Intents returns one reservation's outbox rows.
func (l *Ledger) Intents(ctx context.Context, ref budget.Ref) (out []budget.Intent, err error) {
	err = l.view(ctx, func(s *state) error {
		for _, in := range s.Outbox {
			if in.Ref == ref {
				out = append(out, in)
			}
		}
		return nil
	})
	return out, err
}

// Binding returns what a reservation is bound to.
func (l *Ledger) Binding(ctx context.Context, ref budget.Ref) (out budget.Binding, err error) {
	err = l.view(ctx, func(s *state) error {
		b := s.binding(ref)
		if b == nil {
			return budget.ErrNotFound
		}
		out = *b
		return nil
	})
	return out, err
}

// LiveBindings returns the bindings of all requests that hold slots.
func (l *Ledger) LiveBindings(ctx context.Context) (out map[budget.Ref]budget.Binding, err error) {
	err = l.view(ctx, func(s *state) error {
		out = map[budget.Ref]budget.Binding{}
		for _, b := range s.Bindings {
			if r := s.reservation(b.Ref); r != nil && r.State == budget.Reserved {
				out[b.Ref] = b
			}
		}
		return nil
	})
	return out, err
}

// MarkReady records the first readiness of the bound UID.
func (l *Ledger) MarkReady(ctx context.Context, ref budget.Ref, uid string) error {
	return l.update(ctx, func(s *state) error {
		if b := s.binding(ref); b != nil && b.UID == uid && !b.EverReady {
			b.EverReady, b.FirstReadyAt = true, l.now()
			s.changed("request", ref, 0)
		}
		return nil
	})
}

// MarkGone records that the bound object is gone.
func (l *Ledger) MarkGone(ctx context.Context, ref budget.Ref, uid string) error {
	return l.update(ctx, func(s *state) error {
		if b := s.binding(ref); b != nil && b.UID == uid && b.GoneAt.IsZero() {
			b.GoneAt = l.now()
			s.changed("request", ref, 0)
		}
		return nil
	})
}
