package sqlledger_test

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/ledgertest"
	"modeldock.io/internal/budget/sqlledger"
	"modeldock.io/internal/traffic"
)

const kept = "testdata/schemas"

// keptAt is after every kept ledger was written, and before anything in it
// expires.
func keptAt() time.Time { return time.Date(2026, 11, 30, 9, 30, 0, 0, time.UTC) }

// keptLedgers are the dumps of one kind of database, by file name.
func keptLedgers(t *testing.T, kind string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(kept, kind+"-*.sql"))
	must(t, err)
	if len(all) < 3 {
		t.Fatalf("only %d ledgers of earlier versions are kept in %s", len(all), kept)
	}
	return all
}

// tellAll is the story of every kept ledger.
func tellAll(t *testing.T, l *sqlledger.Ledger) {
	t.Helper()
	ctx := t.Context()
	tell(t, l)
	triple := request("team-b", "triple", 1)
	triple.Model.Replicas.Min, triple.Model.Replicas.Max = 3, 3
	must(t, second(l.Submit(ctx, triple)))
	must(t, second(l.Submit(ctx, request("team-b", "X.y_z-9", 4))))
	must(t, second(l.Admit(ctx, 0)))
	must(t, second(l.SetEngines(ctx, "team-a", []string{"ollama", "file:///models/"})))
	must(t, second(l.SetPools(ctx, "team-b", []string{"default", "spare"})))
	now := keptAt()
	must(t, l.CreateKey(ctx, budget.APIKey{ID: "key1", Tenant: "team-a", Role: budget.RoleTenant, SecretHash: [32]byte{1, 2, 3}, CreatedAt: now}))
	must(t, l.CreateKey(ctx, budget.APIKey{ID: "key2", Role: budget.RoleAdmin, SecretHash: [32]byte{9}, CreatedAt: now, ExpiresAt: now.Add(time.Hour)}))
	must(t, l.RevokeKey(ctx, "key2"))
	must(t, second(l.PutGrant(ctx, budget.Grant{Owner: "team-a", Model: "one", Grantee: "team-b", At: now}, false)))
	must(t, l.AppendAudit(ctx, budget.AuditEntry{Who: "admin", What: "PUT /tenants/team-a/quota", When: now, Why: "because", Result: "200"}))
	must(t, l.PutInferences(ctx, []traffic.Inference{{
		RequestID: "i1", Tenant: "team-a", Owner: "team-a", Model: "one", Version: "v1", ReservationID: "one", Path: "/v1/chat/completions",
		Status: 200, Outcome: traffic.Completed, ReceivedAt: now, SentAt: now, FirstByteAt: now, FirstContentAt: now.Add(time.Millisecond), EndpointUID: "p1",
	}}))
}

// stillTold fails unless everything of the story is there, and goes on.
func stillTold(t *testing.T, l *sqlledger.Ledger) {
	t.Helper()
	ctx := t.Context()
	if report := verify(t, l); !report.Clean() {
		t.Fatalf("%+v", report.Violations)
	}
	ledgertest.Importable(t, ctx, l, keptAt())
	have := map[string]string{}
	all, err := l.List(ctx, budget.Filter{})
	must(t, err)
	for _, r := range all {
		have[r.ID] = fmt.Sprintf("%s %s held %d funded %d revision %d cost %d model %s", r.Tenant, r.State, r.Held, r.Funded, r.Revision, r.Cost, r.Model.Name)
	}
	for id, want := range map[string]string{
		"one": "team-a reserved held 1 funded 1", "two": "team-a reserved held 1 funded 1", "gone": "team-a released held 0 funded 0",
		"queued": "team-a waiting held 0 funded 0", "triple": "team-b reserved held 3 funded 3", "X.y_z-9": "team-b waiting held 0 funded 0",
	} {
		if !strings.HasPrefix(have[id], want) || !strings.HasSuffix(have[id], "model "+id) {
			t.Errorf("%s is %q, was %q", id, have[id], want)
		}
	}
	if len(all) != 6 {
		t.Errorf("%d requests, were 6", len(all))
	}
	access(t, l)
	ref := budget.Ref{Tenant: "team-a", ID: "one"}
	binding, err := l.Binding(ctx, ref)
	must(t, err)
	first, latest, err := l.Chunks(ctx, ref)
	must(t, err)
	if binding.UID != "u1" || first == nil || latest == nil || first.InferenceID != "i1" {
		t.Errorf("%+v, %+v, %+v", binding, first, latest)
	}
	if entries, err := l.Journal(ctx, budget.Ref{Tenant: "team-a", ID: "gone"}); err != nil || len(entries) != 2 || entries[1].Slots != -1 {
		t.Errorf("the journal of what was released: %+v, %v", entries, err)
	}
	// The same submit is the same request; what was reserved can end.
	if again, err := l.Submit(ctx, request("team-a", "one", 1)); err != nil || again.State != budget.Reserved {
		t.Errorf("the same submit again: %+v, %v", again, err)
	}
	must(t, second(l.RequestRelease(ctx, ref)))
	must(t, second(l.Credit(ctx, ref, true)))
	if report := verify(t, l); !report.Clean() {
		t.Fatalf("%+v", report.Violations)
	}
	ledgertest.Importable(t, ctx, l, keptAt())
}

func access(t *testing.T, l *sqlledger.Ledger) {
	t.Helper()
	ctx := t.Context()
	tenant, err := l.Tenant(ctx, "team-a")
	must(t, err)
	other, err := l.Tenant(ctx, "team-b")
	must(t, err)
	key, err := l.Key(ctx, "key1")
	must(t, err)
	revoked, err := l.Key(ctx, "key2")
	must(t, err)
	grants, err := l.Grants(ctx)
	must(t, err)
	audit, err := l.Audit(ctx, 10)
	must(t, err)
	if tenant.Used != 2 || tenant.Cap != 4 || !slices.Equal(tenant.Engines, []string{"ollama", "file:///models/"}) || !slices.Equal(other.Pools, []string{"default", "spare"}) {
		t.Errorf("tenants: %+v, %+v", tenant, other)
	}
	if key.SecretHash != [32]byte{1, 2, 3} || key.Tenant != "team-a" || !key.RevokedAt.IsZero() || revoked.RevokedAt.IsZero() || revoked.ExpiresAt.IsZero() {
		t.Errorf("keys: %+v, %+v", key, revoked)
	}
	if len(grants) != 1 || grants[0].Grantee != "team-b" || len(audit) != 1 || audit[0].Why != "because" {
		t.Errorf("grants %+v, audit %+v", grants, audit)
	}
}

// Every ledger of SQLite that was ever kept opens with all that is in it, and
// has then the schema of a new one.
func TestKeptLedgersAreMigrated(t *testing.T) {
	t.Parallel()
	fresh := filepath.Join(t.TempDir(), "ledger.db")
	must(t, openAt(t, fresh, sqlledger.Options{}).Close())
	want := wholeSchema(t, openDirectly(t, fresh))
	for _, dump := range keptLedgers(t, "sqlite") {
		t.Run(filepath.Base(dump), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(dump)
			must(t, err)
			path := filepath.Join(t.TempDir(), "ledger.db")
			db := openDirectly(t, path)
			_, err = db.Exec(string(text))
			must(t, err)
			must(t, db.Close())
			before := inspect(t, path)
			l := openAt(t, path, sqlledger.Options{Clock: keptAt})
			defer func() { _ = l.Close() }()
			incarnation, seq, err := l.Identity(t.Context())
			must(t, err)
			if before.Version == 0 || fmt.Sprintf("sqlite-%d.sql", before.Version) != filepath.Base(dump) || before.Incarnation != incarnation || before.JournalSeq != seq {
				t.Errorf("before %+v, after %s/%d", before, incarnation, seq)
			}
			stillTold(t, l)
			same(t, wholeSchema(t, openDirectly(t, path)), want)
		})
	}
}

// same names the lines in which two schemas differ.
func same(t *testing.T, got, want string) {
	t.Helper()
	have, wanted := strings.Split(got, "\n"), strings.Split(want, "\n")
	for _, line := range have {
		if !slices.Contains(wanted, line) {
			t.Errorf("the migrated schema has %q, a new one has not", line)
		}
	}
	for _, line := range wanted {
		if !slices.Contains(have, line) {
			t.Errorf("a new schema has %q, the migrated one has not", line)
		}
	}
	if !t.Failed() && got != want {
		t.Error("the lines of the schemas stand in another order")
	}
}

// wholeSchema is what SQLite keeps of every table, index and trigger.
func wholeSchema(t *testing.T, db *sql.DB) string {
	t.Helper()
	defer func() { _ = db.Close() }()
	rows, err := db.Query(`SELECT type || ' ' || name || ' ' || COALESCE(sql, '') FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY 1`)
	must(t, err)
	defer func() { _ = rows.Close() }()
	var all strings.Builder
	for rows.Next() {
		var line string
		must(t, rows.Scan(&line))
		all.WriteString(line + "\n")
	}
	must(t, rows.Err())
	return all.String()
}

// TestKeptLedgerIsWritten makes the dump of this version; see the README there.
func TestKeptLedgerIsWritten(t *testing.T) {
	t.Parallel()
	if os.Getenv("MODELDOCK_WRITE_SCHEMAS") == "" {
		// Whoever asks for none still proves that the story can be told today.
		l := openAt(t, filepath.Join(t.TempDir(), "ledger.db"), sqlledger.Options{Clock: keptAt})
		defer func() { _ = l.Close() }()
		tellAll(t, l)
		stillTold(t, l)
		return
	}
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := openAt(t, path, sqlledger.Options{Clock: keptAt})
	tellAll(t, l)
	must(t, l.Close())
	text, err := exec.CommandContext(t.Context(), "sqlite3", path, ".dump").Output()
	must(t, err)
	must(t, os.WriteFile(filepath.Join(kept, fmt.Sprintf("sqlite-%d.sql", inspect(t, path).Version)), text, 0o644))
}
