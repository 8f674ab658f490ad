package sqlledger

import (
	"context"
	"fmt"
	"strings"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
)

// The statements in this file have as many rows as the set, which no
// generated query can say. Rows given as VALUES also take numbers without
// gaps and in their order, which INSERT … SELECT does not promise.

// maxRows bounds one statement: its text stays far below the smallest packet
// that servers are set up for.
const maxRows = 64

const (
	journalRows = "INSERT INTO journal (tenant, id, pool, op, revision, slots, at) VALUES "
	outboxRows  = "INSERT INTO outbox (tenant, id, op, generation, payload, funded, next_attempt_at) VALUES "
	requestRows = "INSERT INTO reservation (tenant, id, cost, priority, need, model_name, model_version, spec, spec_hash, pool, created_at, expires_at) VALUES "
)

// insertRows writes rows of equal width and returns the first one's number.
func insertRows(ctx context.Context, db sqlitequery.DBTX, into string, width int, args []any) (first int64, err error) {
	row := "(?" + strings.Repeat(", ?", width-1) + ")"
	n := len(args) / width
	result, err := db.ExecContext(ctx, into+row+strings.Repeat(", "+row, n-1), args...)
	if err != nil {
		return 0, err
	}
	stored, err := result.RowsAffected()
	if err == nil && stored != int64(n) {
		err = fmt.Errorf("%d rows were stored where %d must be", stored, n)
	}
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// insertInParts is insertRows for sets of any size.
func insertInParts(ctx context.Context, db sqlitequery.DBTX, into string, width int, args []any) error {
	for len(args) > 0 {
		part := args[:min(len(args), maxRows*width)]
		if _, err := insertRows(ctx, db, into, width, part); err != nil {
			return err
		}
		args = args[len(part):]
	}
	return nil
}

func (m *mysqlQueries) journalSet(ctx context.Context, rows []sqlitequery.Reservation) error {
	const width = 7
	args := make([]any, 0, width*len(rows))
	for _, r := range rows {
		args = append(args, r.Tenant, r.ID, r.Pool, string(budget.OpReserve), r.Revision, r.Held, r.ReservedAt)
	}
	return insertInParts(ctx, m.db, journalRows, width, args)
}

func (m *mysqlQueries) intendSet(ctx context.Context, now time.Time, rows []sqlitequery.Reservation) error {
	const width = 7
	args := make([]any, 0, width*len(rows))
	for _, r := range rows {
		args = append(args, r.Tenant, r.ID, string(budget.Apply), r.Generation, r.Spec, r.Funded, micros(now))
	}
	return insertInParts(ctx, m.db, outboxRows, width, args)
}
