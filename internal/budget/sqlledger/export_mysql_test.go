//go:build mariadb

package sqlledger

import (
	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
)

// MySQLQueries lets the tests ask the ledger's own queries for their plans.
func MySQLQueries(db sqlitequery.DBTX) Queries { return mysqlDialect{}.queries(db) }

// InsertQueries tells what an inserting writer asks beside its inserts.
func InsertQueries(ask func(query string, args []any), all ...budget.Submission) {
	var batch []*operation
	for _, s := range all {
		batch = append(batch, &operation{fresh: &freshRequest{Submission: s}})
	}
	ask(parentsQuery(batch))
	ask(knownQuery(batch))
}
