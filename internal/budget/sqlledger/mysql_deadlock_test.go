//go:build mariadb

package sqlledger_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"modeldock.io/internal/budget/sqlledger"
)

// recorded is a log that a test reads while it is written.
type recorded struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *recorded) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

func (r *recorded) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// TestMySQLDeadlockWithAStranger: somebody who works on the tables by hand
// takes locks the other way round. The database makes the ledger's transaction
// the victim, because it has changed less, and the ledger does the whole of it
// again.
func TestMySQLDeadlockWithAStranger(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, name := database(t)
	said := &recorded{}
	l := openMySQLAt(t, s.DSN(name), sqlledger.Options{Logger: slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	defer func() { must(t, l.Close()) }()
	must(t, second(l.SetQuota(ctx, "team-a", 1)))

	stranger, err := directly(t, s.DSN(name)).Conn(ctx)
	must(t, err)
	defer func() { must(t, stranger.Close()) }()
	do := func(statement string) {
		t.Helper()
		if _, err := stranger.ExecContext(ctx, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	do("START TRANSACTION")
	do("INSERT INTO audit (who, what, at, why, result) SELECT 'stranger', 'heavy', 0, '', '' FROM seq_1_to_2000") // far more than the ledger changes
	do("SELECT cap FROM tenant_quota WHERE tenant = 'team-a' FOR UPDATE")
	set := make(chan error, 1)
	go func() { set <- second(l.SetQuota(context.Background(), "team-a", 7)) }()
	waitsForALock(t, s.DSN(name))
	do("SELECT value FROM meta WHERE name = 'turn' FOR UPDATE") // closes the circle
	do("COMMIT")
	select {
	case err := <-set:
		must(t, err)
	case <-time.After(30 * time.Second):
		t.Fatal("the ledger still waits")
	}
	q, err := l.Tenant(ctx, "team-a")
	must(t, err)
	if q.Cap != 7 || !verify(t, l).Clean() {
		t.Errorf("the cap is %d, want 7; %+v", q.Cap, verify(t, l).Violations)
	}
	if !strings.Contains(said.String(), "tried again") || !strings.Contains(said.String(), "Deadlock") {
		t.Errorf("there was no deadlock to repeat after: %s", said)
	}
}

// waitsForALock returns once some transaction waits for another one's lock.
func waitsForALock(t *testing.T, dsn string) {
	t.Helper()
	db := directly(t, dsn)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(150 * time.Millisecond) { // the server keeps an answer for 100 ms
		var waiting int
		must(t, db.QueryRow(`SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT' AND trx_query LIKE '%tenant_quota%'`).Scan(&waiting))
		if waiting > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody waits for a lock")
		}
	}
}
