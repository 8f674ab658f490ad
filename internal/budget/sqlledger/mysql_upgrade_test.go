//go:build mariadb

package sqlledger_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"modeldock.io/internal/budget/sqlledger"
)

// TestMySQLUpgradeFundsWhatWasReserved: the same on MySQL, also if the upgrade
// was killed after any of its migrations, noted or not.
func TestMySQLUpgradeFundsWhatWasReserved(t *testing.T) {
	t.Parallel()
	for _, undo := range []struct {
		what  string
		noted int // the last version that the killed upgrade had noted
		by    []string
	}{
		{"nothing was done", 21, []string{
			`ALTER TABLE reservation DROP CONSTRAINT reserved_is_funded, DROP CONSTRAINT funded_is_paid, DROP KEY reservation_shrinking, DROP COLUMN shrinking, DROP COLUMN funded`,
		}},
		{"the column was added", 21, []string{
			`ALTER TABLE reservation DROP CONSTRAINT reserved_is_funded, DROP KEY reservation_shrinking, DROP COLUMN shrinking`, `UPDATE reservation SET funded = 0`,
		}},
		{"the column was added and noted", 22, []string{
			`ALTER TABLE reservation DROP CONSTRAINT reserved_is_funded, DROP KEY reservation_shrinking, DROP COLUMN shrinking`, `UPDATE reservation SET funded = 0`,
		}},
		{"the rows were filled", 22, []string{
			`ALTER TABLE reservation DROP CONSTRAINT reserved_is_funded, DROP KEY reservation_shrinking, DROP COLUMN shrinking`,
		}},
		{"nobody was limited", 25, []string{`ALTER TABLE tenant_quota DROP CONSTRAINT limits_are_an_object, DROP COLUMN limits`}},
		{"no address was audited", 27, []string{`DROP TRIGGER audit_stays`, `DROP TRIGGER audit_keeps`, `ALTER TABLE audit DROP COLUMN tenant, DROP COLUMN source`}},
		{"no ended grant was kept", 30, []string{`DROP TABLE ended_grant`}},
		{"all was done but not noted", 21, nil},
	} {
		t.Run(undo.what, func(t *testing.T) {
			t.Parallel()
			s, name := database(t)
			l := openMySQLAt(t, s.DSN(name), sqlledger.Options{})
			tell(t, l)
			must(t, second(l.SetQuota(t.Context(), "team-b", 10)))
			triple := request("team-b", "triple", 2)
			triple.Model.Replicas.Min, triple.Model.Replicas.Max = 3, 3
			must(t, second(l.Submit(t.Context(), triple)))
			must(t, second(l.Admit(t.Context(), 0)))
			must(t, l.Close())
			db := directly(t, s.DSN(name))
			before := schemaOf(t, db)
			for _, statement := range append(undo.by, fmt.Sprint(`DELETE FROM goose_db_version WHERE version_id > `, undo.noted)) {
				_, err := db.Exec(statement)
				must(t, err)
			}
			l = openMySQLAt(t, s.DSN(name), sqlledger.Options{})
			defer func() { must(t, l.Close()) }()
			upgraded(t, l)
			if after := schemaOf(t, db); after != before {
				t.Fatalf("the schema is\n%s\nwas\n%s", after, before)
			}
		})
	}
}

// schemaOf is what the server says of the table, without the next number.
func schemaOf(t *testing.T, db *sql.DB) string {
	t.Helper()
	var table, schema string
	must(t, db.QueryRow(`SHOW CREATE TABLE reservation`).Scan(&table, &schema))
	head, _, _ := strings.Cut(schema, " AUTO_INCREMENT=")
	return head
}
