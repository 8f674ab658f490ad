//go:build mariadb

package sqlledger_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"

	"modeldock.io/internal/budget/sqlledger"
	"modeldock.io/test/mariadb"
)

// client runs one of the server's own programs on a database.
func client(t *testing.T, s *mariadb.Server, program, input, name string, more ...string) []byte {
	t.Helper()
	cfg, err := mysql.ParseDSN(s.DSN(name))
	must(t, err)
	cmd := exec.CommandContext(t.Context(), program, append([]string{"--no-defaults", "--user=" + cfg.User, "--socket=" + cfg.Addr}, append(more, name)...)...)
	cmd.Stdin = strings.NewReader(input)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", program, err, errs.String())
	}
	return out
}

// keptDatabase is a new database with a dump in it.
func keptDatabase(t *testing.T, dump string) (dsn string) {
	t.Helper()
	s, name := database(t)
	text, err := os.ReadFile(dump)
	must(t, err)
	client(t, s, "mariadb", string(text), name)
	return s.DSN(name)
}

// Every ledger of MariaDB that was ever kept opens with all that is in it, also
// by four processes at once, and has then the schema of a new one.
func TestMySQLKeptLedgersAreMigrated(t *testing.T) {
	t.Parallel()
	s, name := database(t)
	must(t, openMySQLAt(t, s.DSN(name), sqlledger.Options{}).Close())
	want := wholeMySQLSchema(t, directly(t, s.DSN(name)))
	for _, dump := range keptLedgers(t, "mysql") {
		t.Run(filepath.Base(dump), func(t *testing.T) {
			t.Parallel()
			dsn := keptDatabase(t, dump)
			before, err := sqlledger.InspectMySQL(t.Context(), dsn)
			must(t, err)
			var ledgers [4]*sqlledger.Ledger
			var errs [4]error
			var all sync.WaitGroup
			for i := range ledgers {
				all.Go(func() { ledgers[i], errs[i] = sqlledger.OpenMySQL(t.Context(), dsn, sqlledger.Options{Clock: keptAt}) })
			}
			all.Wait()
			must(t, errors.Join(errs[:]...))
			defer func() {
				for _, l := range ledgers {
					must(t, l.Close())
				}
			}()
			incarnation, seq, err := ledgers[1].Identity(t.Context())
			must(t, err)
			if fmt.Sprintf("mysql-%d.sql", before.Version) != filepath.Base(dump) || before.Incarnation != incarnation || before.JournalSeq != seq {
				t.Errorf("before %+v, after %s/%d", before, incarnation, seq)
			}
			stillTold(t, ledgers[2])
			// An index that the very first schemas had, and that is of no use, stays.
			got := strings.ReplaceAll(wholeMySQLSchema(t, directly(t, dsn)), "  KEY `reservation_names` (`tenant`,`model_name`),\n", "")
			same(t, got, want)
		})
	}
}

// wholeMySQLSchema is what the server says of every table and trigger, without
// the next numbers.
func wholeMySQLSchema(t *testing.T, db *sql.DB) string {
	t.Helper()
	var all strings.Builder
	for _, kind := range []struct{ what, names string }{
		{"TABLE", `SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY 1`},
		{"TRIGGER", `SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = DATABASE() ORDER BY 1`},
	} {
		for _, name := range column(t, db, kind.names) {
			if name == "goose_db_version" {
				continue
			}
			var shown string
			if kind.what == "TABLE" {
				must(t, db.QueryRow("SHOW CREATE TABLE "+name).Scan(&name, &shown))
				head, tail, found := strings.Cut(shown, " AUTO_INCREMENT=")
				if found {
					_, tail, _ = strings.Cut(tail, " ")
					shown = head + " " + tail
				}
			} else {
				must(t, db.QueryRow(`SELECT CONCAT_WS(' ', action_timing, event_manipulation, event_object_table, action_statement) FROM information_schema.triggers WHERE trigger_schema = DATABASE() AND trigger_name = ?`, name).Scan(&shown))
			}
			all.WriteString(kind.what + " " + name + " " + shown + "\n")
		}
	}
	return all.String()
}

func column(t *testing.T, db *sql.DB, query string) (out []string) {
	t.Helper()
	rows, err := db.Query(query)
	must(t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name string
		must(t, rows.Scan(&name))
		out = append(out, name)
	}
	must(t, rows.Err())
	return out
}

// TestMySQLKeptLedgerIsWritten makes the dump of this version; see the README there.
func TestMySQLKeptLedgerIsWritten(t *testing.T) {
	t.Parallel()
	s, name := database(t)
	l := openMySQLAt(t, s.DSN(name), sqlledger.Options{Clock: keptAt})
	tellAll(t, l)
	if os.Getenv("MODELDOCK_WRITE_SCHEMAS") == "" {
		stillTold(t, l)
		must(t, l.Close())
		return
	}
	must(t, l.Close())
	text := client(t, s, "mariadb-dump", "", name, "--skip-comments", "--skip-add-locks", "--skip-disable-keys", "--hex-blob", "--complete-insert", "--triggers", "--skip-set-charset", "--skip-tz-utc")
	i, err := sqlledger.InspectMySQL(t.Context(), s.DSN(name))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(kept, fmt.Sprintf("mysql-%d.sql", i.Version)), text, 0o644))
}
