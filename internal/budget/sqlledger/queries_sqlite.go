package sqlledger

import (
	"context"
	"fmt"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
)

// sqliteQueries are the generated queries and those that the generator cannot say.
type sqliteQueries struct {
	*sqlitequery.Queries
	db sqlitequery.DBTX
}

var _ queries = sqliteQueries{}

// ReserveSet goes row by row: there are no round trips to save.
func (q sqliteQueries) ReserveSet(ctx context.Context, now time.Time, picked []budget.Request) ([]sqlitequery.Reservation, error) {
	rows := make([]sqlitequery.Reservation, 0, len(picked))
	for _, p := range picked {
		row, err := q.ReserveReservation(ctx, sqlitequery.ReserveReservationParams{Now: nullMicros(now), Seq: p.Seq})
		if err != nil {
			return nil, fmt.Errorf("reserve request %s/%s: %w", p.Tenant, p.ID, err)
		}
		if err := exactlyOne(q.JournalReserve(ctx, row.Seq)); err != nil {
			return nil, fmt.Errorf("journal request %s/%s: %w", p.Tenant, p.ID, err)
		}
		if err := exactlyOne(q.IntendApply(ctx, sqlitequery.IntendApplyParams{Now: micros(now), Seq: row.Seq})); err != nil {
			return nil, fmt.Errorf("write the apply intent of request %s/%s: %w", p.Tenant, p.ID, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// NumberJournalAbove writes SQLite's own table of the numbers given out.
func (q sqliteQueries) NumberJournalAbove(ctx context.Context, seq int64) error {
	if _, err := q.db.ExecContext(ctx, "INSERT INTO sqlite_sequence (name, seq) SELECT 'journal', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'journal')"); err != nil {
		return err
	}
	_, err := q.db.ExecContext(ctx, "UPDATE sqlite_sequence SET seq = ? WHERE name = 'journal' AND seq < ?", seq, seq)
	return err
}
