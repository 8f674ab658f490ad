//go:build mariadb

package sqlledger_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
	"modeldock.io/test/mariadb"
)

// The ledger keeps so many connections for its readers.
const mysqlReaders = 8

func TestMySQLReadersThatLeaveDisturbNobody(t *testing.T) {
	t.Parallel()
	s, name := database(t)
	l := openMySQLAt(t, s.DSN(name), sqlledger.Options{})
	defer func() { must(t, l.Close()) }()
	readersLeave(t, l)
}

// Whoever leaves while his statement waits in the server gets away at once,
// and the connection that breaks by that is replaced.
func TestMySQLReadersLeaveAStatementThatHangs(t *testing.T) {
	t.Parallel()
	s, name := database(t)
	l := openMySQLAt(t, s.DSN(name), sqlledger.Options{})
	defer func() { must(t, l.Close()) }()
	tell(t, l)
	conn, err := directly(t, s.DSN(name)).Conn(t.Context())
	must(t, err)
	defer func() { must(t, conn.Close()) }()
	must(t, second(conn.ExecContext(t.Context(), "LOCK TABLES binding WRITE")))
	ctx, leave := context.WithCancel(t.Context())
	ref := budget.Ref{Tenant: "team-a", ID: "one"}
	var readers sync.WaitGroup
	for range mysqlReaders {
		readers.Go(func() {
			if _, err := l.Binding(ctx, ref); !errors.Is(err, context.Canceled) || !errors.Is(err, budget.ErrUnavailable) {
				t.Errorf("a reader who left got %v", err)
			}
		})
	}
	waitUntil(t, "all readers wait for the table", func() bool {
		var n int
		must(t, conn.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.processlist WHERE db = ? AND info LIKE '%GetBinding%' AND state LIKE 'Waiting%'", name).Scan(&n))
		return n >= mysqlReaders
	})
	leave()
	readers.Wait()
	must(t, second(conn.ExecContext(t.Context(), "UNLOCK TABLES")))
	for range 4 * mysqlReaders {
		readers.Go(func() {
			if b, err := l.Binding(t.Context(), ref); err != nil || b.Ref != ref {
				t.Errorf("after readers who left: %+v, %v", b, err)
			}
		})
	}
	readers.Wait()
}

// A statement whose answer is lost is asked once more, over a new connection;
// one that is lost again is the caller's matter, and the next one works.
func TestMySQLAReadIsRepeatedOnce(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"after", "before"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s, name := database(t)
			p := newProxy(t, s.Addr, "name: GetBinding")
			l := openMySQLAt(t, mariadb.TCP(p.listener.Addr().String(), name), sqlledger.Options{})
			defer func() { must(t, l.Close()) }()
			tell(t, l)
			ref := budget.Ref{Tenant: "team-a", ID: "one"}
			for shots, wanted := range []error{nil, nil, budget.ErrUnavailable, nil} {
				p.arm(how, shots%3)
				b, err := l.Binding(t.Context(), ref)
				if !errors.Is(err, wanted) || (err == nil && b.Ref != ref) {
					t.Fatalf("with %d answers lost: %+v, %v", shots%3, b, err)
				}
			}
			if p.cuts != 1+2 {
				t.Fatalf("%d statements were cut, want 3", p.cuts)
			}
		})
	}
}

// All idle connections may be gone at once, as behind a server's restart.
func TestMySQLReadersFindTheirConnectionsGone(t *testing.T) {
	t.Parallel()
	s, name := database(t)
	l := openMySQLAt(t, s.DSN(name), sqlledger.Options{})
	defer func() { must(t, l.Close()) }()
	tell(t, l)
	for range 3 {
		endConnections(t, directly(t, s.DSN(name)), name)
		var readers sync.WaitGroup
		for range 4 * mysqlReaders {
			readers.Go(func() {
				_, one := l.Get(t.Context(), budget.Ref{Tenant: "team-a", ID: "one"})
				_, _, who := l.Identity(t.Context())
				_, bound := l.LiveBindings(t.Context())
				if err := errors.Join(one, who, bound); err != nil {
					t.Errorf("after all connections were ended: %v", err)
				}
			})
		}
		readers.Wait()
	}
}

// endConnections ends everybody else's connections to a database.
func endConnections(t *testing.T, db *sql.DB, name string) {
	t.Helper()
	rows, err := db.Query("SELECT CONCAT('KILL CONNECTION ', id) FROM information_schema.processlist WHERE db = ? AND id <> CONNECTION_ID()", name)
	must(t, err)
	var kills []string
	for rows.Next() {
		var kill string
		must(t, rows.Scan(&kill))
		kills = append(kills, kill)
	}
	must(t, errors.Join(rows.Err(), rows.Close()))
	if len(kills) < mysqlReaders {
		t.Fatalf("only %d connections to end", len(kills))
	}
	for _, kill := range kills {
		_, _ = db.Exec(kill) // it may have ended by itself
	}
}

// Where statements alone are no transactions by the server's default, the
// first read would open one, and all later reads show that old state.
func TestMySQLReadsAreFreshWhateverTheDefault(t *testing.T) {
	t.Parallel()
	s, name := database(t)
	l := openMySQLAt(t, s.DSN(name)+"?autocommit=0", sqlledger.Options{})
	defer func() { must(t, l.Close()) }()
	for limit := range int64(2 * mysqlReaders) {
		must(t, second(l.SetQuota(t.Context(), "team-a", limit)))
		tenant, err := l.Tenant(t.Context(), "team-a")
		must(t, err)
		if tenant.Cap != limit {
			t.Fatalf("read a cap of %d after %d was set", tenant.Cap, limit)
		}
	}
}
