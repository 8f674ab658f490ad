package sqlledger

import "modeldock.io/internal/budget/sqlledger/sqlitequery"

// Queries are what the rules ask, for the tests that ask for their plans.
type Queries = queries

// SQLiteQueries lets the tests ask the ledger's own queries for their plans.
func SQLiteQueries(db sqlitequery.DBTX) Queries { return sqliteDialect{}.queries(db) }
