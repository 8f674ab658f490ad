package scenario_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modeldock.io/test/onemachine"
	"modeldock.io/test/scenario"
)

// backUp copies the database of a stopped machine, and restore puts it back.
func backUp(t *testing.T, m *onemachine.Machine) (restore func()) {
	t.Helper()
	kept := map[string][]byte{}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if data, err := os.ReadFile(filepath.Join(m.Data(), "ledger.db"+suffix)); err == nil {
			kept[suffix] = data
		}
	}
	if len(kept[""]) == 0 {
		t.Fatal("there is no database to back up")
	}
	return func() {
		t.Helper()
		forget(t, m)
		for suffix, data := range kept {
			if err := os.WriteFile(filepath.Join(m.Data(), "ledger.db"+suffix), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// forget removes the database of a stopped machine.
func forget(t *testing.T, m *onemachine.Machine) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(m.Data(), "ledger.db*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
}

// stamp is the highest number in DATA/ledger.stamp.
func stamp(t *testing.T, m *onemachine.Machine) int64 {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(m.Data(), "ledger.stamp"))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Ledgers map[string]int64 }
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	var highest int64
	for _, seq := range doc.Ledgers {
		highest = max(highest, seq)
	}
	return highest
}

func readyz(t *testing.T, m *onemachine.Machine) (int, string) {
	t.Helper()
	resp, err := http.Get(m.API() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func isReady(t *testing.T, m *onemachine.Machine) {
	t.Helper()
	scenario.Eventually(t, "/readyz to say yes", func() bool { s, _ := readyz(t, m); return s == 200 }, func() any { _, b := readyz(t, m); return b })
}

// accepted is the answer to the decision for an older ledger.
type accepted struct {
	JournalSeq        int64
	Dropped, Restored []struct{ Tenant, ID, UID, Note string }
}

// An older database stands still: what was delivered after it was copied is
// neither adopted nor deleted, and nothing is admitted into cards that are
// taken. Accepted, it is the truth.
func TestOlderBackupStandsStillUntilAccepted(t *testing.T) {
	t.Parallel()
	m := onemachine.New(t)
	talk := map[string]any{"model": map[string]any{"args": []string{"--tokens=150", "--token-time=20ms"}}}
	scenario.As(t, m, "team-a").Submit("both", 1, talk)
	scenario.As(t, m, "team-b").Submit("undone", 1, nil)
	both, undone := scenario.As(t, m, "team-a").Ready("both"), scenario.As(t, m, "team-b").Ready("undone")
	m.Stop(t)
	restore := backUp(t, m)
	m.Start(t)
	scenario.As(t, m, "team-a").Submit("orphan", 1, nil)
	scenario.As(t, m, "team-a").Ready("orphan")
	scenario.As(t, m, "team-b").Release("undone")
	scenario.As(t, m, "team-b").Released("undone")
	m.Stop(t)
	stamped := stamp(t, m)
	restore()
	m.Start(t)
	a, b, admin := scenario.As(t, m, "team-a"), scenario.As(t, m, "team-b"), scenario.As(t, m, "admin")

	status, says := readyz(t, m)
	for _, want := range []string{"journal ends at 2", "and 4 was stamped", "2 places", "--accept-older"} {
		if status != 503 || !strings.Contains(says, want) {
			t.Errorf("/readyz answers %d and does not say %q: %s", status, want, says)
		}
	}
	verify := admin.Must(200, "GET", "/ledger/verify", nil).JSON(t)
	if why, _ := verify["older"].(string); verify["clean"] != true || !strings.Contains(why, "older than what was delivered") || !strings.Contains(why, "team-a/orphan") {
		t.Errorf("verify says %v", verify)
	}
	// Nothing that would be journaled: the older journal must not grow past the stamp.
	for path, body := range map[string]any{
		"/requests/both?tenant=team-a":                      map[string]any{"generation": 1, "replicas": map[string]any{"min": 2, "max": 2}},
		"/requests/undone/release?tenant=team-b&force=true": map[string]any{"why": "a try"},
	} {
		method := map[bool]string{true: "POST", false: "PATCH"}[strings.Contains(path, "release")]
		if code, message, _ := admin.Must(409, method, path, body).Error(t); code != "ledger_stands_still" || !strings.Contains(message, "--accept-older") {
			t.Errorf("%s %s: %s: %s", method, path, code, message)
		}
	}
	b.Submit("next", 1, nil)
	a.Release("both") // recorded, and not acted upon
	scenario.Eventually(t, "the model that both know, and the orphan, to run", func() bool {
		return m.Engines(t, "team-a", "both") == 1 && m.Engines(t, "team-a", "orphan") == 1
	}, func() any { return m.Processes(t, "") })
	if n := m.Engines(t, "team-b", "undone"); n != 0 {
		t.Errorf("%d engines of a request that was released run again before anybody decided", n)
	}
	if r := b.Get("next"); r.State != "waiting" || !strings.Contains(r.Message, "older than what was delivered") || strings.Contains(r.Message, "team-a") {
		t.Errorf("admitted by an older ledger: %+v", r)
	}
	if e := b.Explain("next"); !strings.Contains(e.Message, "older than what was delivered") || strings.Contains(e.Message, "team-a") {
		t.Errorf("explain says %q", e.Message)
	}
	if r := a.Get("both"); r.State != "reserved" || r.Object.UID != both.Object.UID {
		t.Errorf("the release was acted upon: %+v", r)
	}

	// Accepted while a stream runs on the replica that stays.
	restoredStream := b.Get("undone").Object.UID
	var answer accepted
	if err := json.Unmarshal(admin.Must(200, "POST", "/ledger/import", map[string]any{"acceptOlder": true, "why": "the disk is lost"}).Body, &answer); err != nil {
		t.Fatal(err)
	}
	if len(answer.Dropped) != 1 || answer.Dropped[0].ID != "orphan" || len(answer.Restored) != 1 || answer.Restored[0].ID != "undone" || answer.JournalSeq < stamped {
		t.Errorf("accepted: %+v", answer)
	}
	if n := m.Engines(t, "team-a", "orphan"); n != 0 {
		t.Errorf("answered while %d engines of the orphan live", n)
	}
	if again := b.Ready("undone"); again.Object.UID != undone.Object.UID || restoredStream != undone.Object.UID {
		t.Errorf("object %+v was delivered again as %+v", undone.Object, again.Object)
	}
	b.Ready("next")
	a.Released("both")
	a.Must(404, "GET", "/requests/orphan", nil)
	scenario.VerifyClean(t, m)
	isReady(t, m)
	if u := scenario.Quota(t, m, "team-b"); u.Used != 2 || m.Engines(t, "team-b", "undone")+m.Engines(t, "team-b", "next") != 2 {
		t.Errorf("team-b uses %d slots, its engines: %v", u.Used, m.Processes(t, ""))
	}
	audit := string(admin.Must(200, "GET", "/ledger/export", nil).Body)
	if !strings.Contains(audit, "accept an older ledger: object") || !strings.Contains(audit, "the disk is lost") {
		t.Error("the audit does not tell what was dropped and why")
	}
	admin.Must(409, "POST", "/ledger/import", map[string]any{"acceptOlder": true})
	m.Stop(t)
	if now := stamp(t, m); now <= stamped {
		t.Errorf("the stamp is %d after %d", now, stamped)
	}
	m.Start(t)
	isReady(t, m)
}

// While an older ledger stands still and while it is accepted, streams on
// models that ledger and world both know go on.
func TestStreamsSurviveTheDecision(t *testing.T) {
	t.Parallel()
	m := onemachine.New(t)
	scenario.As(t, m, "team-a").Submit("both", 1, map[string]any{"model": map[string]any{"args": []string{"--tokens=150", "--token-time=20ms"}}})
	scenario.As(t, m, "team-a").Ready("both")
	m.Stop(t)
	restore := backUp(t, m)
	m.Start(t)
	scenario.As(t, m, "team-b").Submit("orphan", 1, nil)
	scenario.As(t, m, "team-b").Ready("orphan")
	m.Stop(t)
	restore()
	if err := os.Remove(filepath.Join(m.Data(), "ledger.stamp")); err != nil { // the objects' own stamps tell
		t.Fatal(err)
	}
	m.Start(t)
	if status, says := readyz(t, m); status != 503 || !strings.Contains(says, "older than what was delivered") {
		t.Errorf("without its stamp file /readyz answers %d: %s", status, says)
	}
	a, admin := scenario.As(t, m, "team-a"), scenario.As(t, m, "admin")
	a.Ready("both")
	s := a.Chat(context.Background(), "both", nil, func(n int) {
		if n == 5 {
			admin.Must(200, "POST", "/ledger/import", map[string]any{"acceptOlder": true})
		}
	})
	if !s.Done || s.Chunks != 150 {
		t.Errorf("the stream was cut: %+v", s)
	}
	if n := m.Engines(t, "team-b", "orphan"); n != 0 {
		t.Errorf("%d engines of the orphan live", n)
	}
	isReady(t, m)
	scenario.VerifyClean(t, m)
}

// A backup that lacks only what has ended since goes on by itself, with
// numbers above those that were given out.
func TestOlderBackupWithoutDifferencesGoesOn(t *testing.T) {
	t.Parallel()
	m := onemachine.New(t)
	scenario.As(t, m, "team-a").Submit("kept", 1, nil)
	kept := scenario.As(t, m, "team-a").Ready("kept")
	m.Stop(t)
	restore := backUp(t, m)
	m.Start(t)
	scenario.As(t, m, "team-b").Submit("short", 2, nil)
	scenario.As(t, m, "team-b").Ready("short")
	scenario.As(t, m, "team-b").Release("short")
	scenario.As(t, m, "team-b").Released("short")
	m.Stop(t)
	stamped := stamp(t, m)
	restore()
	m.Start(t)
	isReady(t, m)
	a, b := scenario.As(t, m, "team-a"), scenario.As(t, m, "team-b")
	if again := a.Ready("kept"); again.Object.UID != kept.Object.UID {
		t.Errorf("object %+v became %+v", kept.Object, again.Object)
	}
	b.Submit("short", 2, nil)
	b.Ready("short")
	scenario.VerifyClean(t, m)
	if now := stamp(t, m); now <= stamped {
		t.Errorf("the stamp is %d after %d: numbers were given out twice", now, stamped)
	}
}

// withKeys is a machine seen with the keys of another ledger.
type withKeys struct {
	*onemachine.Machine
	keys map[string]string
}

func (w withKeys) Key(who string) string { return w.keys[who] }

// A lost database is made again from an export: the objects of the old ledger
// are bound, not created twice, and its keys work.
func TestImportedLedgerOwnsItsObjectsAgain(t *testing.T) {
	t.Parallel()
	m := onemachine.New(t)
	old := withKeys{m, map[string]string{}}
	for _, who := range []string{"admin", "team-a", "team-b"} {
		old.keys[who] = m.Key(who)
	}
	a := scenario.As(t, old, "team-a")
	a.Submit("moved", 1, nil)
	before := a.Ready("moved")
	a.Submit("waits", 2, nil)
	document := string(scenario.As(t, old, "admin").Must(200, "GET", "/ledger/export", nil).Body)
	m.Stop(t)
	forget(t, m)
	m.Start(t)
	if n := m.Engines(t, "team-a", "moved"); n != 0 {
		t.Errorf("%d engines run for a ledger that does not know them", n)
	}
	answer := scenario.As(t, m, "admin").Must(200, "POST", "/ledger/import", document).JSON(t)
	if answer["reservations"] != float64(2) || answer["older"] != nil {
		t.Errorf("imported: %v", answer)
	}
	if after := a.Ready("moved"); after.Object.UID != before.Object.UID {
		t.Errorf("object %+v became %+v", before.Object, after.Object)
	}
	if objects := objectFiles(t, m); len(objects) != 1 || m.Engines(t, "team-a", "moved") != 1 {
		t.Errorf("objects %v, engines %d; want one of each", objects, m.Engines(t, "team-a", "moved"))
	}
	a.MustChat("moved")
	a.Release("moved")
	a.Released("moved")
	a.Ready("waits")
	scenario.VerifyClean(t, m)
	isReady(t, m)
	scenario.As(t, m, "admin").Must(409, "POST", "/ledger/import", document)
}

// A document that is older than the objects stands still like a database
// would, right after its import.
func TestImportedOlderDocumentStandsStill(t *testing.T) {
	t.Parallel()
	m := onemachine.New(t)
	old := withKeys{m, map[string]string{}}
	for _, who := range []string{"admin", "team-a", "team-b"} {
		old.keys[who] = m.Key(who)
	}
	a, admin := scenario.As(t, old, "team-a"), scenario.As(t, old, "admin")
	a.Submit("kept", 1, nil)
	kept := a.Ready("kept")
	document := string(admin.Must(200, "GET", "/ledger/export", nil).Body)
	a.Submit("orphan", 1, nil)
	a.Ready("orphan")
	m.Stop(t)
	forget(t, m)
	m.Start(t)
	answer := scenario.As(t, m, "admin").Must(200, "POST", "/ledger/import", document).JSON(t)
	if older, _ := answer["older"].(string); !strings.Contains(older, "team-a/orphan") {
		t.Errorf("the import does not tell that the document is older: %v", answer)
	}
	if status, says := readyz(t, m); status != 503 {
		t.Errorf("/readyz answers %d: %s", status, says)
	}
	admin.Must(200, "POST", "/ledger/import", map[string]any{"acceptOlder": true})
	if again := a.Ready("kept"); again.Object.UID != kept.Object.UID {
		t.Errorf("object %+v became %+v", kept.Object, again.Object)
	}
	if objects := objectFiles(t, m); len(objects) != 1 || m.Engines(t, "team-a", "orphan") != 0 {
		t.Errorf("objects %v, engines of the orphan %d", objects, m.Engines(t, "team-a", "orphan"))
	}
	isReady(t, m)
	scenario.VerifyClean(t, m)
}

// Killed in the middle of the decision, it finds its way without a second one
// being harmful: the orphan goes, nothing is given out before.
func TestKilledWhileAccepting(t *testing.T) {
	t.Parallel()
	m := onemachine.New(t)
	scenario.As(t, m, "team-a").Submit("kept", 1, nil)
	scenario.As(t, m, "team-a").Ready("kept")
	m.Stop(t)
	restore := backUp(t, m)
	m.Start(t)
	scenario.As(t, m, "team-b").Submit("orphan", 2, map[string]any{"model": map[string]any{"args": []string{"--ignore-sigterm"}}})
	scenario.As(t, m, "team-b").Ready("orphan")
	m.Crash(t)
	restore()
	m.Start(t)
	b := scenario.As(t, m, "team-b")
	b.Submit("heir", 2, nil)
	scenario.Eventually(t, "the orphan to run", func() bool { return m.Engines(t, "team-b", "orphan") == 1 }, func() any { return m.Processes(t, "") })
	cut := make(chan error, 1)
	go func() {
		body := strings.NewReader(`{"acceptOlder":true}`)
		r, err := http.NewRequest(http.MethodPost, m.API()+"/ledger/import", body)
		if err == nil {
			r.Header.Set("Authorization", "Bearer "+m.Key("admin"))
			var resp *http.Response
			if resp, err = http.DefaultClient.Do(r); err == nil {
				_ = resp.Body.Close()
			}
		}
		cut <- err
	}()
	scenario.Eventually(t, "the deletion to begin", func() bool {
		for _, f := range objectFiles(t, m) {
			if data, err := os.ReadFile(f); err == nil && strings.Contains(string(data), `"deletingAt"`) {
				return true
			}
		}
		return false
	}, func() any { return objectFiles(t, m) })
	if r := b.Get("heir"); r.State != "waiting" {
		t.Errorf("admitted while the orphan still ends: %+v", r)
	}
	m.Crash(t)
	if err := <-cut; err == nil {
		t.Error("the decision was answered although its process was killed")
	}
	m.Start(t)
	isReady(t, m) // nothing differs any more once the orphan is gone
	scenario.As(t, m, "team-b").Ready("heir")
	if n := m.Engines(t, "team-b", "orphan"); n != 0 {
		t.Errorf("%d engines of the orphan live", n)
	}
	scenario.VerifyClean(t, m)
	audit := string(scenario.As(t, m, "admin").Must(200, "GET", "/ledger/export", nil).Body)
	if !strings.Contains(audit, "accept an older ledger: object") {
		t.Error("what was deleted is not in the audit")
	}
}
