package jsonledger

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/evidence"
)

// Export hands on every row of the present state. It works on the decoded
// image of one moment, so that a slow receiver holds up nobody.
func (l *Ledger) Export(ctx context.Context, head func(budget.CopyHead) error, row func(budget.Row) error) error {
	var image []byte
	h := budget.CopyHead{}
	if err := l.view(ctx, func(s *state) error {
		image = l.image
		h = budget.CopyHead{Incarnation: s.Incarnation, JournalSeq: s.Next.Journal, At: l.now()}
		return nil
	}); err != nil {
		return err
	}
	s, err := decode(image)
	if err != nil {
		return fmt.Errorf("%w: %w", budget.ErrUnavailable, err)
	}
	s.sortForCopy()
	if err := head(h); err != nil {
		return err
	}
	for r := range s.rows() {
		if err := row(r); err != nil {
			return err
		}
	}
	return nil
}

// rows are all that a copy carries, in its order.
func (s *state) rows() iter.Seq[budget.Row] {
	return func(yield func(budget.Row) bool) {
		_ = handAll(s.Tenants, yield) && handAll(s.Pools, yield) && handAll(s.Reservations, yield) && handAll(s.Journal, yield) &&
			handAll(s.Outbox, yield) && handAll(s.Bindings, yield) && handAll(s.Keys, yield) && handAll(s.Grants, yield) &&
			handAll(s.EndedGrants, yield) && handAll(s.Audit, yield) && handAll(s.Chunks, yield)
	}
}

func handAll[T any](rows []T, yield func(budget.Row) bool) bool {
	for _, r := range rows {
		if !yield(r) {
			return false
		}
	}
	return true
}

// sortForCopy puts what the state keeps in order of arrival into the order of
// a copy.
func (s *state) sortForCopy() {
	byRef := func(a, b budget.Ref) int {
		if c := strings.Compare(a.Tenant, b.Tenant); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	}
	slices.SortFunc(s.Tenants, func(a, b budget.Tenant) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Pools, func(a, b budget.Pool) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Bindings, func(a, b budget.Binding) int { return byRef(a.Ref, b.Ref) })
	slices.SortFunc(s.Chunks, func(a, b evidence.Kept) int { return byRef(a.Ref, b.Ref) })
	slices.SortFunc(s.Keys, func(a, b budget.APIKey) int {
		if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	slices.SortFunc(s.Grants, byNames)
	slices.SortFunc(s.EndedGrants, func(a, b budget.EndedGrant) int { return byNames(a.Grant, b.Grant) })
}

// LiftJournal makes the journal go on above seq.
func (l *Ledger) LiftJournal(ctx context.Context, seq int64) error {
	return l.update(ctx, func(s *state) error {
		s.Next.Journal = max(s.Next.Journal, seq)
		return nil
	})
}

// Import takes a copy in: the state that it describes replaces the present one.
func (l *Ledger) Import(ctx context.Context, head budget.CopyHead, rows iter.Seq2[budget.Row, error], keep string) error {
	return l.update(ctx, func(s *state) error {
		if len(s.Reservations) > 0 || len(s.Journal) > 0 {
			return &budget.NotEmptyError{Reservations: int64(len(s.Reservations)), Entries: int64(len(s.Journal))}
		}
		next := &state{Version: version, Incarnation: head.Incarnation, Inferences: s.Inferences}
		next.Next.Journal = max(head.JournalSeq, s.Next.Journal)
		for r, err := range rows {
			if err == nil {
				err = next.take(r)
			}
			if err != nil {
				return err
			}
		}
		for _, k := range s.Keys {
			if k.ID == keep && !slices.ContainsFunc(next.Keys, func(o budget.APIKey) bool { return o.ID == keep }) {
				next.Keys = append(next.Keys, k)
			}
		}
		rep := budget.Verify(budget.Snapshot{
			At: l.now(), Tenants: next.Tenants, Pools: next.Pools, Reservations: next.Reservations,
			Entries: next.Journal, Intents: next.Outbox, Bindings: next.Bindings,
		})
		if !rep.Clean() {
			return &budget.CopyRefusedError{Violations: rep.Violations}
		}
		*s = *next
		s.changed("ledger", budget.Ref{}, 0)
		return nil
	})
}

// take adds one row and keeps the counters above its number.
func (s *state) take(r budget.Row) error {
	switch r := r.(type) {
	case budget.Tenant:
		s.Tenants = append(s.Tenants, r)
	case budget.Pool:
		s.Pools = append(s.Pools, r)
	case budget.Reservation:
		s.Reservations = append(s.Reservations, r)
		s.Next.Reservation = max(s.Next.Reservation, r.Seq)
	case budget.Entry:
		s.Journal = append(s.Journal, r)
		s.Next.Journal = max(s.Next.Journal, r.Seq)
	case budget.Intent:
		s.Outbox = append(s.Outbox, r)
		s.Next.Outbox = max(s.Next.Outbox, r.Seq)
	case budget.Binding:
		s.Bindings = append(s.Bindings, r)
	case budget.APIKey:
		s.Keys = append(s.Keys, r)
	case budget.Grant:
		s.Grants = append(s.Grants, r)
	case budget.EndedGrant:
		s.EndedGrants = append(s.EndedGrants, r)
	case budget.AuditEntry:
		s.Audit = append(s.Audit, r)
		s.Next.Audit = max(s.Next.Audit, r.Seq)
	case evidence.Kept:
		s.Chunks = append(s.Chunks, r)
	default:
		return fmt.Errorf("a copy has a row of the unknown kind %T", r)
	}
	return nil
}
