//go:build mariadb

package sqlledger

import (
	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
)

// MySQLQueries lets the tests ask the ledger's own queries for their plans.
func MySQLQueries(db sqlitequery.DBTX) Queries { return mysqlDialect{}.queries(db) }

// KnownQuery is what an inserting writer asks before it inserts.
func KnownQuery(all ...budget.Submission) (query string, args []any) {
	var batch []*operation
	for _, s := range all {
		batch = append(batch, &operation{fresh: &freshRequest{Submission: s}})
	}
	return knownQuery(batch)
}
