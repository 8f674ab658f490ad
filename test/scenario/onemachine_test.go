package scenario_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the second process of C021 and C028

	"modeldock.io/test/onemachine"
	"modeldock.io/test/scenario"
)

func openLedger(t *testing.T, m *onemachine.Machine) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(m.Data(), "ledger.db")+"?_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// C028 (b) and (c) with the change made directly in SQL.
func TestCapsChangedInSQLWakeWhoWaits(t *testing.T) {
	t.Parallel()
	m := onemachine.New(t)
	capsChangedInSQL(t, m, openLedger(t, m))
}

func capsChangedInSQL(t *testing.T, m *onemachine.Machine, db *sql.DB) {
	t.Helper()
	a := scenario.As(t, m, "team-a")
	a.Submit("one", 2, nil)
	a.Ready("one")
	a.Submit("two", 2, nil)
	a.Until("two", "QuotaBlocked", func(r scenario.Record) bool { return r.Reason == "QuotaBlocked" })
	if _, err := db.Exec(`UPDATE tenant_quota SET cap = 20 WHERE tenant = 'team-a'`); err != nil {
		t.Fatal(err)
	}
	a.Ready("two")
	a.Submit("three", 6, nil)
	a.Until("three", "PoolBlocked", func(r scenario.Record) bool { return r.Reason == "PoolBlocked" })
	if _, err := db.Exec(`UPDATE gpu_pool SET cap = 10 WHERE pool = 'default'`); err != nil {
		t.Fatal(err)
	}
	a.Ready("three")
	scenario.VerifyClean(t, m)
}

// C021: clients loop while a second process takes the write lock every 100 ms;
// nobody ever sees a locked database.
func TestSecondProcessOnTheLedgerFile(t *testing.T) {
	t.Parallel()
	m := onemachine.New(t)
	db := openLedger(t, m)
	ctx, stop := context.WithTimeout(context.Background(), 6*time.Second)
	defer stop()
	var locker, clients sync.WaitGroup
	locker.Add(1)
	go func() {
		defer locker.Done()
		for ctx.Err() == nil {
			tx, err := db.Begin()
			if err != nil && strings.Contains(err.Error(), "SQLITE_BUSY") {
				continue // it was kept waiting for longer than its own limit
			}
			if err != nil {
				t.Errorf("second process: %v", err)
				return
			}
			_, err = tx.Exec(`UPDATE gpu_pool SET cap = cap`)
			time.Sleep(50 * time.Millisecond) // the lock is held that long
			if end := tx.Commit(); err != nil || end != nil {
				t.Errorf("second process: %v, %v", err, end)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	var done atomic.Int64
	for w := range 20 {
		clients.Add(1)
		go func() {
			defer clients.Done()
			c := scenario.As(t, m, []string{"team-a", "team-b"}[w%2])
			for i := 0; ctx.Err() == nil; i++ {
				id := fmt.Sprintf("w%d-%d", w, i)
				for _, call := range [][2]string{{"POST", "/requests"}, {"GET", "/requests/" + id}, {"POST", "/requests/" + id + "/release"}} {
					var body any
					if call[1] == "/requests" {
						body = map[string]any{"id": id, "cost": 1, "priority": 1, "model": map[string]any{"gpuMemoryMiB": 64}}
					}
					if ans := c.Do(call[0], call[1], body); ans.Status >= 300 {
						t.Errorf("%s %s: status %d: %.200s", call[0], call[1], ans.Status, ans.Body)
					}
					done.Add(1)
				}
			}
		}()
	}
	clients.Wait()
	locker.Wait()
	t.Logf("%d calls under lock pressure", done.Load())
	if done.Load() < 60 {
		t.Errorf("only %d calls in 6 s", done.Load())
	}
	scenario.VerifyClean(t, m)
}

// Story 3 on one machine: the process dies between create and acknowledge;
// afterwards there is one object, one debit, and the model runs.
func TestCreatedButNotAcknowledged(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"create", "ack"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			m := onemachine.New(t, "--manual")
			a, admin := scenario.As(t, m, "team-a"), scenario.As(t, m, "admin")
			a.Submit("lost", 1, nil)
			if r := a.Get("lost"); r.State != "waiting" || r.Reason != "AwaitingAdmission" {
				t.Errorf("under --manual a request that fits is %s, %s", r.State, r.Reason)
			}
			admin.Must(200, "POST", "/step", map[string]any{"what": "admit"})
			crash(t, m, map[string]any{"what": "deliver", "crashBefore": point})
			m.Start(t)
			a, admin = scenario.As(t, m, "team-a"), scenario.As(t, m, "admin")
			scenario.Eventually(t, "the row to be delivered", func() bool {
				admin.Must(200, "POST", "/step", map[string]any{"what": "deliver"})
				return a.Get("lost").Object.UID != ""
			}, func() any { return a.Get("lost") })
			r := a.Ready("lost")
			if objects := objectFiles(t, m); len(objects) != 1 {
				t.Errorf("%d objects exist, want 1: %v", len(objects), objects)
			}
			if n := m.Engines(t, "team-a", "lost"); n != 1 {
				t.Errorf("%d engines run, want 1", n)
			}
			if j := a.Journal("lost"); len(j) != 1 || r.Held != 1 {
				t.Errorf("journal %v, held %d", j, r.Held)
			}
			scenario.VerifyClean(t, m)
		})
	}
}

// C134 on one machine: everything is gone, the process dies before the
// credit; after the restart there is exactly one.
func TestDiesBeforeTheCredit(t *testing.T) {
	t.Parallel()
	diesBeforeTheCredit(t, onemachine.New(t, "--manual"))
}

func diesBeforeTheCredit(t *testing.T, m *onemachine.Machine) {
	t.Helper()
	a, admin := scenario.As(t, m, "team-a"), scenario.As(t, m, "admin")
	step := func(what string) {
		t.Helper()
		admin.Must(200, "POST", "/step", map[string]any{"what": what, "count": 10})
	}
	a.Submit("x", 2, nil)
	step("admit")
	step("deliver")
	a.Ready("x")
	a.Release("x")
	if r := a.Get("x"); r.State != "reserved" || r.Reason != "Draining" {
		t.Errorf("after the release was asked for: %s, %s", r.State, r.Reason)
	}
	step("deliver")
	scenario.Eventually(t, "the engine and its object to be gone", func() bool {
		return m.Engines(t, "team-a", "x") == 0 && len(objectFiles(t, m)) == 0
	}, func() any { return m.Engines(t, "team-a", "x") })
	if r := a.Get("x"); r.State != "reserved" || r.Held != 2 {
		t.Errorf("credited by nobody: %+v", r)
	}
	crash(t, m, map[string]any{"what": "release", "crashBefore": "credit"})
	m.Start(t)
	a, admin = scenario.As(t, m, "team-a"), scenario.As(t, m, "admin")
	step("release")
	step("release")
	if r := a.Get("x"); r.State != "released" || r.Held != 0 {
		t.Errorf("after the restart: %+v", r)
	}
	if j := strings.Join(a.Journal("x"), ", "); j != "reserve 2, release -2" {
		t.Errorf("journal: %s", j)
	}
	scenario.VerifyClean(t, m)
}

// crash steps into a crash point and waits until the process is gone.
func crash(t *testing.T, m *onemachine.Machine, step map[string]any) {
	t.Helper()
	data, err := json.Marshal(step)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, m.API()+"/step", strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+m.Key("admin"))
	if resp, err := http.DefaultClient.Do(r); err == nil {
		_ = resp.Body.Close()
		t.Fatalf("the step %v was answered %s; it should have crashed", step, resp.Status)
	}
	m.AwaitExit(t, "after the crash point")
}

func objectFiles(t *testing.T, m *onemachine.Machine) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(m.Data(), "objects", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A model that is killed from outside comes back under the same reservation
// and UID; a killed supervisor takes its engine with it.
func TestKilledModelComesBack(t *testing.T) {
	t.Parallel()
	m := onemachine.New(t)
	a := scenario.As(t, m, "team-a")
	a.Submit("phoenix", 1, nil)
	before := a.Ready("phoenix")
	for _, pid := range m.Processes(t, "") {
		p, err := os.FindProcess(pid)
		if err != nil {
			t.Fatal(err)
		}
		_ = p.Kill()
	}
	after := a.Until("phoenix", "restart", func(r scenario.Record) bool {
		status, facts := a.Explain("phoenix").Step(t, "started")
		return status == "ok" && facts["restarts"] != float64(0) && r.ReadyReplicas == 1
	})
	if after.Object.UID != before.Object.UID || len(a.Journal("phoenix")) != 1 {
		t.Errorf("object %v became %v, journal %v", before.Object, after.Object, a.Journal("phoenix"))
	}
	a.MustChat("phoenix")
	if n := m.Engines(t, "team-a", "phoenix"); n != 1 {
		t.Errorf("%d engines run, want 1", n)
	}
}

// C137 on one machine: the object is a record, and a record that vanishes by
// hand is written back under the same identity, while ModelDock runs and when
// it was stopped. Nothing is credited, nothing runs twice.
func TestObjectsThatVanishByHandComeBack(t *testing.T) {
	t.Parallel()
	m := onemachine.New(t)
	a := scenario.As(t, m, "team-a")
	a.Submit("kept", 2, nil)
	before := a.Ready("kept")
	vanish := func() {
		t.Helper()
		for _, file := range objectFiles(t, m) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
	}
	isBack := func(when string) {
		t.Helper()
		scenario.Eventually(t, "the object to be back "+when, func() bool { return len(objectFiles(t, m)) == 1 }, func() any { return objectFiles(t, m) })
		after := scenario.As(t, m, "team-a").Ready("kept")
		if after.Object.UID != before.Object.UID || after.Held != 2 {
			t.Errorf("%s: object %+v became %+v, held %d", when, before.Object, after.Object, after.Held)
		}
		if n := m.Engines(t, "team-a", "kept"); n != 1 {
			t.Errorf("%s: %d engines run, want 1", when, n)
		}
		scenario.VerifyClean(t, m)
	}
	vanish()
	isBack("while it runs")
	m.Crash(t)
	vanish()
	m.Start(t)
	isBack("after a restart")
	if j := scenario.As(t, m, "team-a").Journal("kept"); len(j) != 1 {
		t.Errorf("journal: %v", j)
	}
}
