package sqlledger

import (
	"context"
	"fmt"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
	"modeldock.io/internal/evidence"
)

// copyPage is how many rows of an export are in memory at a time.
const copyPage = 500

// Export reads the whole ledger from one snapshot, page by page.
func (l *Ledger) Export(ctx context.Context, head func(budget.CopyHead) error, row func(budget.Row) error) error {
	_, err := view(ctx, l, "export the ledger", func(q queries) (struct{}, error) {
		h, err := l.copyHead(ctx, q)
		if err != nil {
			return struct{}{}, err
		}
		if err := head(h); err != nil {
			return struct{}{}, refuse(err) // the receiver's failure, not the store's
		}
		for _, part := range []func(context.Context, queries, func(budget.Row) error) error{
			exportTenants, exportPools, exportReservations, exportJournal, exportOutbox,
			exportBindings, exportKeys, exportGrants, exportAudit, exportChunks,
		} {
			if err := part(ctx, q, func(r budget.Row) error {
				if err := row(r); err != nil {
					return refuse(err)
				}
				return nil
			}); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	})
	return err
}

func (l *Ledger) copyHead(ctx context.Context, q queries) (h budget.CopyHead, err error) {
	id, err := readIdentity(ctx, q)
	if err != nil {
		return h, err
	}
	h.Incarnation, h.JournalSeq = id.incarnation, id.seq
	h.At, err = l.clock(ctx, q)
	h.At = h.At.UTC().Truncate(time.Microsecond)
	return h, err
}

// paged hands on the rows of a kind; page returns those behind the last row of
// the page before, of which it is given the zero row at first.
func paged[T any](what string, page func(last T) ([]T, error), hand func(T) error) error {
	var last T
	for {
		rows, err := page(last)
		if err != nil {
			return fmt.Errorf("read %s: %w", what, err)
		}
		for _, r := range rows {
			if err := hand(r); err != nil {
				return err
			}
		}
		if len(rows) < copyPage {
			return nil
		}
		last = rows[len(rows)-1]
	}
}

// handOn hands on a row that had to be converted.
func handOn[T any](row func(budget.Row) error) func(T, error) error {
	return func(r T, err error) error {
		if err != nil {
			return err
		}
		return row(r)
	}
}

func exportTenants(ctx context.Context, q queries, row func(budget.Row) error) error {
	rows, err := q.ListTenants(ctx)
	if err != nil {
		return fmt.Errorf("read the quotas: %w", err)
	}
	for _, r := range rows {
		if err := handOn[budget.Tenant](row)(tenant(r)); err != nil {
			return err
		}
	}
	return nil
}

func exportPools(ctx context.Context, q queries, row func(budget.Row) error) error {
	rows, err := q.ListPools(ctx)
	if err != nil {
		return fmt.Errorf("read the pools: %w", err)
	}
	list, err := pools(rows)
	if err != nil {
		return err
	}
	for _, p := range list {
		if err := row(p); err != nil {
			return err
		}
	}
	return nil
}

func exportReservations(ctx context.Context, q queries, row func(budget.Row) error) error {
	return paged("the reservations", func(last sqlitequery.Reservation) ([]sqlitequery.Reservation, error) {
		return q.ListReservations(ctx, sqlitequery.ListReservationsParams{AfterSeq: last.Seq, MaxRows: copyPage})
	}, func(r sqlitequery.Reservation) error { return handOn[budget.Reservation](row)(reservation(r)) })
}

func exportJournal(ctx context.Context, q queries, row func(budget.Row) error) error {
	return paged("the journal", func(last sqlitequery.Journal) ([]sqlitequery.Journal, error) {
		return q.JournalAfter(ctx, sqlitequery.JournalAfterParams{Seq: last.Seq, Limit: copyPage})
	}, func(r sqlitequery.Journal) error { return row(entry(r)) })
}

func exportOutbox(ctx context.Context, q queries, row func(budget.Row) error) error {
	return paged("the outbox", func(last sqlitequery.Outbox) ([]sqlitequery.Outbox, error) {
		return q.OutboxAfter(ctx, sqlitequery.OutboxAfterParams{Seq: last.Seq, Limit: copyPage})
	}, func(r sqlitequery.Outbox) error { return handOn[budget.Intent](row)(intent(r)) })
}

func exportBindings(ctx context.Context, q queries, row func(budget.Row) error) error {
	return paged("the bindings", func(last sqlitequery.Binding) ([]sqlitequery.Binding, error) {
		return q.BindingsAfter(ctx, sqlitequery.BindingsAfterParams{Tenant: last.Tenant, Tenant_2: last.Tenant, ID: last.ID, Limit: copyPage})
	}, func(r sqlitequery.Binding) error { return row(binding(r)) })
}

func exportKeys(ctx context.Context, q queries, row func(budget.Row) error) error {
	rows, err := q.ListKeys(ctx)
	if err != nil {
		return fmt.Errorf("read the keys: %w", err)
	}
	for _, r := range rows {
		if err := row(key(r)); err != nil {
			return err
		}
	}
	return nil
}

func exportGrants(ctx context.Context, q queries, row func(budget.Row) error) error {
	rows, err := q.ListGrants(ctx)
	if err != nil {
		return fmt.Errorf("read the grants: %w", err)
	}
	for _, g := range rows {
		if err := row(grant(g)); err != nil {
			return err
		}
	}
	ended, err := q.ListEndedGrants(ctx)
	if err != nil {
		return fmt.Errorf("read the grants that ended: %w", err)
	}
	for _, g := range ended {
		if err := row(endedGrant(g)); err != nil {
			return err
		}
	}
	return nil
}

func exportAudit(ctx context.Context, q queries, row func(budget.Row) error) error {
	return paged("the audit", func(last sqlitequery.Audit) ([]sqlitequery.Audit, error) {
		return q.AuditAfter(ctx, sqlitequery.AuditAfterParams{Seq: last.Seq, Limit: copyPage})
	}, func(r sqlitequery.Audit) error {
		return row(auditEntry(r))
	})
}

func exportChunks(ctx context.Context, q queries, row func(budget.Row) error) error {
	return paged("the first chunks", func(last sqlitequery.FirstChunk) ([]sqlitequery.FirstChunk, error) {
		return q.ChunksAfter(ctx, sqlitequery.ChunksAfterParams{Tenant: last.Tenant, Tenant_2: last.Tenant, ID: last.ID, Limit: copyPage})
	}, func(r sqlitequery.FirstChunk) error {
		c := chunksOf(r)
		return row(evidence.Kept{Ref: budget.Ref{Tenant: r.Tenant, ID: r.ID}, First: *c.first, Latest: *c.latest})
	})
}
