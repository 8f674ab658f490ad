package jsonledger

import (
	"context"
	"maps"
	"slices"
	"time"

	"modeldock.io/internal/budget"
)

// Verify recomputes every invariant from the rows.
func (l *Ledger) Verify(ctx context.Context) (out budget.Report, err error) {
	err = l.view(ctx, func(s *state) error {
		out = budget.Verify(budget.Snapshot{
			At: l.now(), Tenants: s.Tenants, Pools: s.Pools, Reservations: s.Reservations,
			Entries: s.Journal, Intents: s.Outbox, Bindings: s.Bindings,
		})
		return nil
	})
	return out, err
}

// AppendAudit remembers a change; a zero time is now.
func (l *Ledger) AppendAudit(ctx context.Context, e budget.AuditEntry) error {
	return l.update(ctx, func(s *state) error {
		s.Next.Audit++
		e.Seq = s.Next.Audit
		if e.When.IsZero() {
			e.When = l.now()
		}
		e.When = e.When.UTC().Truncate(time.Microsecond)
		s.Audit = append(s.Audit, e)
		return nil
	})
}

// Audit returns the latest changes, newest first.
func (l *Ledger) Audit(ctx context.Context, limit int) (out []budget.AuditEntry, err error) {
	err = l.view(ctx, func(s *state) error {
		out = slices.Clone(s.Audit)
		slices.Reverse(out)
		if limit > 0 && len(out) > limit {
			out = out[:limit]
		}
		return nil
	})
	return out, err
}

// SearchAudit returns one page of the entries that match.
func (l *Ledger) SearchAudit(ctx context.Context, q budget.AuditQuery) (out budget.AuditPage, err error) {
	err = l.view(ctx, func(s *state) error {
		var rows []budget.AuditEntry
		for _, e := range slices.Backward(s.Audit) {
			if (q.Before == 0 || e.Seq < q.Before) && len(rows) < q.Reads() {
				rows = append(rows, e)
			}
		}
		out = q.Page(rows)
		return nil
	})
	return out, err
}

// PruneAudit forgets all but the newest keep changes of tenants, by their
// shares, and of everybody else.
func (l *Ledger) PruneAudit(ctx context.Context, keep int64) error {
	return l.update(ctx, func(s *state) error {
		held := map[string]int64{}
		for _, e := range s.Audit {
			if e.ByTenant() {
				held[e.Tenant]++
			}
		}
		share, others := budget.AuditShare(slices.Collect(maps.Values(held)), keep), keep
		seen := map[string]int64{}
		var kept []budget.AuditEntry
		for _, e := range slices.Backward(s.Audit) {
			if e.ByTenant() {
				if seen[e.Tenant]++; seen[e.Tenant] <= share {
					kept = append(kept, e)
				}
			} else if others--; others >= 0 {
				kept = append(kept, e)
			}
		}
		slices.Reverse(kept)
		s.Audit = kept
		return nil
	})
}

// Identity returns the incarnation and the highest journal seq.
func (l *Ledger) Identity(ctx context.Context) (incarnation string, journalSeq int64, err error) {
	err = l.view(ctx, func(s *state) error {
		incarnation, journalSeq = s.Incarnation, s.Next.Journal
		return nil
	})
	return incarnation, journalSeq, err
}
