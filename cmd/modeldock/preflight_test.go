package main

import (
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite" // to make an older ledger, and a newer one

	"modeldock.io/internal/budget/sqlledger"
	"modeldock.io/internal/preflight"
)

// ledgerIn makes a data directory with a ledger and changes its database.
func ledgerIn(t *testing.T, statements ...string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "ledger.db")
	l, err := sqlledger.OpenSQLite(t.Context(), path, sqlledger.Options{})
	if err == nil {
		err = l.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// older is a ledger from before ended grants were remembered.
func older(t *testing.T) string {
	t.Helper()
	return ledgerIn(t, `DROP TABLE ended_grant`, `DELETE FROM goose_db_version WHERE version_id = 8`)
}

func TestPreflightExitCodes(t *testing.T) {
	t.Parallel()
	apart(t, nil, "preflight").exits(exitUsage, "name what to look at")
	apart(t, nil, "preflight", "--data-dir", ledgerIn(t)).exits(exitOK, "is current", "nothing is in the way")
	apart(t, nil, "preflight", "--data-dir", older(t)).exits(exitOK, "pending", "00008_ended_grant", "modeldock ledger export")
	newer := ledgerIn(t, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)`)
	apart(t, nil, "preflight", "--data-dir", newer).exits(exitBroken, "schema version 999", "run the newer program")
	d := apart(t, []string{"MODELDOCK_MYSQL_DSN=u:zq7secret@tcp(127.0.0.1:1)/ledger"}, "preflight", "--redis", "127.0.0.1:1", "-o", "json").exits(exitBroken)
	var report preflight.Report
	if err := json.Unmarshal([]byte(d.out), &report); err != nil || report.Ready || len(report.Findings) != 2 || report.Findings[0].Next == "" {
		t.Errorf("%v: %s", err, d.out)
	}
	apart(t, nil, "preflight", "--data-dir", newer, "-o", "name").exits(exitBroken, "database/schema\n")
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	dir := older(t)
	apart(t, nil, "migrate").exits(exitUsage, "name one ledger")
	apart(t, nil, "migrate", "--data-dir", dir, "--dry-run").exits(exitOK, "00008_ended_grant")
	apart(t, nil, "preflight", "--data-dir", dir).exits(exitOK, "pending") // nothing was done yet
	apart(t, nil, "migrate", "--data-dir", dir, "-o", "name").exits(exitOK, "00008_ended_grant\n")
	apart(t, nil, "preflight", "--data-dir", dir).exits(exitOK, "is current")
	newer := ledgerIn(t, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)`)
	for _, more := range [][]string{nil, {"--dry-run"}} {
		apart(t, nil, append([]string{"migrate", "--data-dir", newer}, more...)...).exits(exitFailed, "schema version 999")
	}
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	apart(t, nil, "migrate", "--data-dir", nowhere).exits(exitFailed, "modeldock up")
	if _, err := os.Stat(nowhere); err == nil {
		t.Error("it made a data directory")
	}
}
