//go:build mariadb

package sqlledger

import "modeldock.io/internal/budget/sqlledger/sqlitequery"

// MySQLQueries lets the tests ask the ledger's own queries for their plans.
func MySQLQueries(db sqlitequery.DBTX) queries { return mysqlDialect{}.queries(db) }
