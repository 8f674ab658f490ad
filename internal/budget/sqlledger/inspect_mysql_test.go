//go:build mariadb

package sqlledger_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"modeldock.io/internal/budget/sqlledger"
)

func TestMySQLInspect(t *testing.T) {
	t.Parallel()
	s, name := database(t)
	look := func() sqlledger.Inspection {
		t.Helper()
		i, err := sqlledger.InspectMySQL(t.Context(), s.DSN(name))
		must(t, err)
		return i
	}
	before := look()
	if before.Version != 0 || before.Incarnation != "" || int64(len(before.Pending)) != before.Known || before.Known < 26 || !strings.Contains(before.Server, "MariaDB") || before.Settings["innodb_flush_log_at_trx_commit"] != "1" {
		t.Errorf("of an empty database: %+v", before)
	}
	l := openMySQLAt(t, s.DSN(name), sqlledger.Options{})
	defer func() { must(t, l.Close()) }()
	tell(t, l)
	incarnation, seq, err := l.Identity(t.Context())
	must(t, err)
	if got := look(); got.Version != got.Known || len(got.Pending) != 0 || got.Incarnation != incarnation || got.JournalSeq != seq {
		t.Errorf("of %s/%d: %+v", incarnation, seq, got)
	}
	// A first start that was killed before the journal had its table.
	_, half := database(t)
	db := directly(t, s.DSN(half))
	for _, statement := range []string{
		`CREATE TABLE goose_db_version (id BIGINT PRIMARY KEY, version_id BIGINT, is_applied BOOL)`, `INSERT INTO goose_db_version VALUES (1, 0, 1), (2, 1, 1), (3, 2, 1)`,
		`CREATE TABLE meta (name VARBINARY(64) PRIMARY KEY, value VARBINARY(255))`,
	} {
		_, err := db.Exec(statement)
		must(t, err)
	}
	if got, err := sqlledger.InspectMySQL(t.Context(), s.DSN(half)); err != nil || got.Version != 2 || got.Pending[0] != "00003_gpu_pool" || got.Incarnation != "" {
		t.Errorf("of a half of one: %+v, %v", got, err)
	}
}

// A user who lacks a right hears which, all at once, and nothing is left.
func TestMySQLRightsAreTried(t *testing.T) {
	t.Parallel()
	s, name := database(t)
	must(t, sqlledger.TryRightsMySQL(t.Context(), s.DSN(name)))
	db := directly(t, s.DSN(name))
	user := "poor_" + name
	for _, statement := range []string{
		fmt.Sprintf(`CREATE USER %s@'%%' IDENTIFIED BY 'secret'`, user),
		fmt.Sprintf(`GRANT SELECT, INSERT, UPDATE, CREATE, DROP, INDEX ON %s.* TO %s@'%%'`, name, user),
	} {
		_, err := db.Exec(statement)
		must(t, err)
	}
	t.Cleanup(func() { _, _ = directly(t, s.DSN("")).Exec(fmt.Sprintf(`DROP USER %s@'%%'`, user)) })
	cfg, err := mysql.ParseDSN(s.DSN(name))
	must(t, err)
	cfg.User, cfg.Passwd = user, "secret"
	err = sqlledger.TryRightsMySQL(t.Context(), cfg.FormatDSN())
	for _, lacking := range []string{"ALTER", "TRIGGER", "DELETE"} {
		if err == nil || !strings.Contains(err.Error(), "("+lacking+")") {
			t.Errorf("%s is lacking and it says %v", lacking, err)
		}
	}
	if err != nil && (strings.Contains(err.Error(), "(INSERT)") || strings.Contains(err.Error(), "(CREATE)")) {
		t.Errorf("it complains of what is allowed: %v", err)
	}
	var tables int
	must(t, db.QueryRow(`SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()`).Scan(&tables))
	if tables != 0 {
		t.Errorf("%d tables were left", tables)
	}
	// While somebody migrates, it is no time to try.
	conn, err := db.Conn(t.Context())
	must(t, err)
	defer func() { _ = conn.Close() }()
	var got int
	must(t, conn.QueryRowContext(t.Context(), "SELECT GET_LOCK(CONCAT('modeldock:', DATABASE()), 60)").Scan(&got)) // the server lets go of it some time after a connection's end
	if got != 1 {
		t.Fatal("the lock is not free")
	}
	if err := sqlledger.TryRightsMySQL(t.Context(), s.DSN(name)); !errors.Is(err, sqlledger.ErrMigrating) {
		t.Errorf("beside a migration it says %v", err)
	}
}
