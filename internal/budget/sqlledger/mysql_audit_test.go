//go:build mariadb

package sqlledger_test

import (
	"testing"

	"modeldock.io/internal/budget/sqlledger"
)

func TestMySQLAuditStays(t *testing.T) {
	t.Parallel()
	s, name := database(t)
	l := openMySQLAt(t, s.DSN(name), sqlledger.Options{})
	defer func() { must(t, l.Close()) }()
	auditStays(t, l, directly(t, s.DSN(name)))
}
