package sqlledger

import (
	"context"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
)

// Queries are what the rules ask, for the tests that ask for their plans.
type Queries = queries

// SQLiteQueries lets the tests ask the ledger's own queries for their plans.
func SQLiteQueries(db sqlitequery.DBTX) Queries { return sqliteDialect{}.queries(db) }

// HoldOutside takes every read connection that calls from outside may have,
// until release.
func (l *Ledger) HoldOutside(ctx context.Context) (release func(), err error) {
	var all []func()
	for range cap(l.reads.outside) {
		_, free, err := l.reads.take(budget.FromOutside(ctx))
		if err != nil {
			return nil, err
		}
		all = append(all, free)
	}
	return func() {
		for _, free := range all {
			free()
		}
	}, nil
}

// Walks is how often the ledger walked along the whole queue to explain it.
func (l *Ledger) Walks() int64 { return l.board.walks.Load() }
