//go:build mariadb

package sqlledger_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
)

// TestMySQLMigrationsResume: killed anywhere, also between a statement and the
// note that it ran, the next start goes on and loses nothing.
func TestMySQLMigrationsResume(t *testing.T) {
	t.Parallel()
	s, name := database(t)
	l := openMySQLAt(t, s.DSN(name), sqlledger.Options{})
	tell(t, l)
	incarnation, seq, err := l.Identity(t.Context())
	must(t, err)
	must(t, l.Close())
	db := directly(t, s.DSN(name))
	var last int
	must(t, db.QueryRow(`SELECT MAX(version_id) FROM goose_db_version`).Scan(&last))
	for version := last; version > 0; version -= 3 {
		_, err := db.Exec(`DELETE FROM goose_db_version WHERE version_id >= ?`, version)
		must(t, err)
		l := openMySQLAt(t, s.DSN(name), sqlledger.Options{})
		same, sameSeq, err := l.Identity(t.Context())
		must(t, err)
		if same != incarnation || sameSeq != seq || !verify(t, l).Clean() {
			t.Fatalf("identity is %s/%d, was %s/%d", same, sameSeq, incarnation, seq)
		}
		must(t, l.Close())
	}
}

func TestMySQLManyOpenAtOnce(t *testing.T) {
	t.Parallel()
	s, name := database(t)
	errs := make([]error, 5)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			l, err := sqlledger.OpenMySQL(context.Background(), s.DSN(name), sqlledger.Options{})
			if err == nil {
				err = errors.Join(second(l.SetPool(context.Background(), "default", 1)), l.Close())
			}
			errs[i] = err
		})
	}
	all.Wait()
	must(t, errors.Join(errs...))
	var marks int
	must(t, directly(t, s.DSN(name)).QueryRow(`SELECT COUNT(*) FROM commit_mark`).Scan(&marks))
	if marks != 0 {
		t.Fatalf("%d writers left their marks behind", marks)
	}
}

func TestMySQLANewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	s, name := database(t)
	must(t, openMySQLAt(t, s.DSN(name), sqlledger.Options{}).Close())
	_, err := directly(t, s.DSN(name)).Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)`)
	must(t, err)
	if _, err := sqlledger.OpenMySQL(t.Context(), s.DSN(name), sqlledger.Options{}); err == nil || !strings.Contains(err.Error(), "999") {
		t.Fatalf("a newer schema was answered %v", err)
	}
}

func TestMySQLABadDSNIsRefused(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"nonsense", "root@unix(/nowhere)/", "root:secret@unix(/nowhere)/ledger"} {
		_, err := sqlledger.OpenMySQL(t.Context(), dsn, sqlledger.Options{})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s was answered %v", dsn, err)
		}
	}
}

// TestMySQLTheClockIsTheDatabases: replicas agree about time whatever their
// own clocks say; only an injected clock takes its place.
func TestMySQLTheClockIsTheDatabases(t *testing.T) {
	t.Parallel()
	s, name := database(t)
	// The sessions stand five years ahead of this process, in another time zone.
	const skew = 5 * 365 * 24 * time.Hour
	skewed := s.DSN(name) + "?timestamp=" + fmt.Sprint(time.Now().Add(skew).Unix()) + "&time_zone=%27%2B05%3A30%27"
	l := openMySQLAt(t, skewed, sqlledger.Options{})
	defer func() { must(t, l.Close()) }()
	must(t, second(l.SetPool(t.Context(), "default", 1)))
	r, err := l.Submit(t.Context(), request("team-a", "x", 1))
	must(t, err)
	if ahead := time.Until(r.CreatedAt); ahead < skew-time.Hour || ahead > skew+time.Hour {
		t.Fatalf("created at %s, which is this process's time and not the database's", r.CreatedAt)
	}
	must(t, second(l.Submit(t.Context(), request("team-a", "x", 1))))
	again, err := l.Get(t.Context(), r.Ref)
	must(t, err)
	if !again.CreatedAt.Equal(r.CreatedAt) || !again.ExpiresAt.Equal(r.CreatedAt.Add(budget.DefaultTTL)) {
		t.Fatalf("stored %+v, answered %+v", again, r)
	}
	expired, err := l.Expire(t.Context())
	must(t, err)
	if len(expired) != 0 {
		t.Fatal("it expired by another clock than it was created by")
	}
}

// TestMySQLWholeTransactionsAreRepeated: a deadlock's victim and a lock that
// did not come in time are run again from their beginning, and count once.
func TestMySQLWholeTransactionsAreRepeated(t *testing.T) {
	t.Parallel()
	for _, number := range []uint16{1213, 1205} {
		for _, at := range []string{"-- name: SetMark", "-- name: ReserveReservations", "INSERT INTO outbox", "-- name: TakePoolSlots", "COMMIT"} {
			t.Run(fmt.Sprint(number, " ", at), func(t *testing.T) {
				t.Parallel()
				s, name := database(t)
				var armed atomic.Bool
				var hits atomic.Int64
				l := openMySQLAt(t, s.DSN(name), sqlledger.Options{BeforeStatement: func(statement string) error {
					if strings.HasPrefix(statement, at) && armed.CompareAndSwap(true, false) {
						hits.Add(1)
						return &mysql.MySQLError{Number: number, Message: "try restarting transaction"}
					}
					return nil
				}})
				defer func() { must(t, l.Close()) }()
				must(t, second(l.SetPool(t.Context(), "default", 10)))
				must(t, second(l.SetQuota(t.Context(), "team-a", 10)))
				must(t, second(l.Submit(t.Context(), request("team-a", "x", 3))))
				armed.Store(true)
				got, err := l.Admit(t.Context(), 0)
				must(t, err)
				tenant, err := l.Tenant(t.Context(), "team-a")
				must(t, err)
				if hits.Load() != 1 || len(got) != 1 || tenant.Used != 3 || !verify(t, l).Clean() {
					t.Fatalf("%d faults, %d admitted, %d used, %+v", hits.Load(), len(got), tenant.Used, verify(t, l).Violations)
				}
			})
		}
	}
}

// TestMySQLConnectionsThatBreakAreReplaced: whatever was idle is cut, and
// nobody notices.
func TestMySQLConnectionsThatBreakAreReplaced(t *testing.T) {
	t.Parallel()
	s, name := database(t)
	l := openMySQLAt(t, s.DSN(name), sqlledger.Options{})
	defer func() { must(t, l.Close()) }()
	must(t, second(l.SetPool(t.Context(), "default", 10)))
	must(t, second(l.Submit(t.Context(), request("team-a", "x", 1))))
	db := directly(t, s.DSN(name))
	rows, err := db.Query(`SELECT id FROM information_schema.processlist WHERE db = ? AND id <> CONNECTION_ID()`, name)
	must(t, err)
	defer func() { _ = rows.Close() }()
	var ids []int64
	for rows.Next() {
		var id int64
		must(t, rows.Scan(&id))
		ids = append(ids, id)
	}
	must(t, rows.Err())
	if len(ids) < 10 {
		t.Fatalf("only %d connections are open", len(ids))
	}
	for _, id := range ids {
		_, _ = db.Exec(fmt.Sprint("KILL ", id)) // some end by themselves
	}
	for range 10 { // all of the pool
		must(t, second(l.Get(t.Context(), budget.Ref{Tenant: "team-a", ID: "x"})))
	}
	must(t, second(l.SetQuota(t.Context(), "team-a", 1)))
	must(t, second(l.Submit(t.Context(), request("team-a", "y", 1))))
	must(t, second(l.Submit(t.Context(), request("team-a", "z", 1))))
	if !verify(t, l).Clean() {
		t.Fatal("not clean")
	}
}
