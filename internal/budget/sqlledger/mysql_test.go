//go:build mariadb

package sqlledger_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/ledgertest"
	"modeldock.io/internal/budget/sqlledger"
	"modeldock.io/test/mariadb"
)

// server is started by the first test that needs it and stopped by TestMain.
// It stands in memory where the system has such a folder: what a killed
// process leaves is there too, and nothing here pulls the plug.
var (
	server  = sync.OnceValues(startServer)
	started atomic.Bool
)

func startServer() (*mariadb.Server, error) {
	started.Store(true)
	if s, err := mariadb.Start(context.Background(), "/dev/shm"); err == nil {
		return s, nil
	}
	return mariadb.Start(context.Background(), "")
}

// stopServer ends what the tests started.
func stopServer() {
	if !started.Load() {
		return
	}
	if s, err := server(); err == nil {
		if err := s.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop MariaDB:", err)
		}
	}
}

// database makes an empty one for the test.
func database(t *testing.T) (s *mariadb.Server, name string) {
	t.Helper()
	s, err := server()
	must(t, err)
	name, drop, err := s.Create(t.Context())
	must(t, err)
	t.Cleanup(func() { must(t, drop()) })
	return s, name
}

func openMySQL(t *testing.T, clock func() time.Time) budget.Ledger {
	t.Helper()
	s, name := database(t)
	return openMySQLAt(t, s.DSN(name), sqlledger.Options{Clock: clock})
}

func openMySQLAt(t *testing.T, dsn string, opts sqlledger.Options) *sqlledger.Ledger {
	t.Helper()
	l, err := sqlledger.OpenMySQL(t.Context(), dsn, opts)
	must(t, err)
	return l
}

// directly opens the database behind the ledger's back.
func directly(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestMySQLConformance(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, openMySQL)
}

func TestMySQLAgainstTheOracle(t *testing.T) {
	t.Parallel()
	ledgertest.Compare(t, openMySQL, oracle)
}

func TestMySQLQueueAgainstTheOracle(t *testing.T) {
	t.Parallel()
	ledgertest.CompareQueue(t, openMySQL, oracle)
}

// From one machine to MariaDB and back.
func TestMySQLCopies(t *testing.T) {
	t.Parallel()
	ledgertest.RoundTrip(t, open, openMySQL)
}

func TestMySQLGrowthAgainstTheOracle(t *testing.T) {
	t.Parallel()
	ledgertest.CompareGrowth(t, openMySQL, oracle)
}
