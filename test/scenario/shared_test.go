//go:build mariadb

package scenario_test

import (
	"context"
	"database/sql"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	_ "github.com/go-sql-driver/mysql" // who changes the database by hand

	"modeldock.io/test/mariadb"
	"modeldock.io/test/onemachine"
	"modeldock.io/test/scenario"
)

// shared is one database server for all tests of the process.
var shared struct {
	once   sync.Once
	server atomic.Pointer[mariadb.Server]
	err    error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if s := shared.server.Load(); s != nil && s.Stop() != nil {
		code = 1
	}
	os.Exit(code)
}

func server(t *testing.T) *mariadb.Server {
	t.Helper()
	shared.once.Do(func() {
		s, err := mariadb.Start(context.Background(), "")
		if shared.err = err; err == nil {
			shared.server.Store(s)
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server.Load()
}

func openDatabase(t *testing.T, m *onemachine.Machine) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", m.DSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

const everything = "api,admit,deliver"

// TestTwoManagementAPIs: every story, on MariaDB, with each call of a client
// going to another of two processes that run the whole control plane.
func TestTwoManagementAPIs(t *testing.T) {
	t.Parallel()
	for name, story := range scenario.Stories() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, onemachine.NewShared(t, server(t), nil, everything))
		})
	}
}

// C028 (b) and (c) on MariaDB, with two admitters.
func TestSharedCapsChangedInSQL(t *testing.T) {
	t.Parallel()
	m := onemachine.NewShared(t, server(t), nil, everything)
	capsChangedInSQL(t, m, openDatabase(t, m))
}

// C134 on MariaDB.
func TestSharedDiesBeforeTheCredit(t *testing.T) {
	t.Parallel()
	diesBeforeTheCredit(t, onemachine.NewShared(t, server(t), []string{"--manual"}))
}

// A second data directory would start every model once more.
func TestSharedDatabaseHasOneHome(t *testing.T) {
	t.Parallel()
	m := onemachine.NewShared(t, server(t), nil)
	dir := t.TempDir()
	second := func(flags ...string) (string, error) {
		said, err := m.Command(t, append([]string{"up", "--store", "mysql", "--listen", "127.0.0.1:0", "--data-dir", dir}, flags...)...).CombinedOutput()
		return string(said), err
	}
	// While the first one lives nothing moves, and nothing is bound anew.
	for _, flags := range [][]string{nil, {"--move-here"}} {
		if said, err := second(flags...); err == nil || !strings.Contains(said, "stop that one first") {
			t.Errorf("a second home with %v: %v\n%s", flags, err, said)
		}
	}
	scenario.As(t, m, "team-a").Submit("x", 1, nil)
	scenario.As(t, m, "team-a").Ready("x")
	m.Stop(t)
	if said, err := second(); err == nil || !strings.Contains(said, m.Data()) || !strings.Contains(said, "--move-here") {
		t.Errorf("a second home after the first has stopped: %v\n%s", err, said)
	}
	m.Start(t)
	scenario.As(t, m, "team-a").Ready("x")
}
