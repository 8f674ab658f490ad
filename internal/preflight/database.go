package preflight

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"modeldock.io/internal/budget/sqlledger"
)

// known is what other parts want to hear of the ledger.
type known struct {
	incarnation string
	journal     int64
	inspect     func(context.Context) (sqlledger.Inspection, error) // it once more
}

// end is where the journal ends when so much was delivered. A ledger that is at
// work went on since it was looked at, and was stamped again.
func (k known) end(ctx context.Context, stamped int64) int64 {
	if stamped <= k.journal {
		return k.journal
	}
	if i, err := k.inspect(ctx); err == nil && i.Incarnation == k.incarnation {
		return i.JournalSeq
	}
	return k.journal
}

// Names of the checks of a ledger.
const (
	checkReach    = "reachable"
	checkVersion  = "version"
	checkSettings = "settings"
	checkRights   = "rights"
	checkSchema   = "schema"
	checkIdentity = "identity"
)

// database looks at a server. ledger gets what it found, or is closed.
func database(ctx context.Context, dsn string, ledger chan<- known) []Finding {
	defer close(ledger)
	l := &look{part: "database"}
	inspect := func(ctx context.Context) (sqlledger.Inspection, error) { return sqlledger.InspectMySQL(ctx, dsn) }
	i, err := inspect(ctx)
	if err != nil {
		l.add(checkReach, Broken, err.Error(), "start the server, or correct the DSN: user:password@tcp(host:port)/database, with a database that exists")
		return l.all
	}
	l.add(checkReach, OK, i.Where+" answers", "")
	serverVersion(l, i.Server)
	settings(l, i.Settings)
	err = sqlledger.TryRightsMySQL(ctx, dsn)
	switch {
	case errors.Is(err, sqlledger.ErrMigrating):
		l.add(checkRights, Unknown, err.Error(), "wait until it has ended, and look again")
	case err != nil:
		l.add(checkRights, Broken, "the user is refused: "+strings.ReplaceAll(err.Error(), "\n", "; "), rightsNext(i))
	default:
		l.add(checkRights, OK, "the user may change tables, triggers and rows", "")
	}
	schema(l, i)
	if i.Incarnation != "" {
		ledger <- known{i.Incarnation, i.JournalSeq, inspect}
	}
	return l.all
}

func rightsNext(i sqlledger.Inspection) string {
	next := "grant the user SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX, DROP, TRIGGER and REFERENCES on the database"
	if on(i.Settings["log_bin"]) && !on(i.Settings["log_bin_trust_function_creators"]) {
		next += "; with binary logging, triggers also need log_bin_trust_function_creators=1"
	}
	return next
}

func on(value string) bool { return value == "1" || strings.EqualFold(value, "ON") }

// The oldest servers that keep what the schema relies on: CHECK constraints
// that are enforced, and SKIP LOCKED.
var (
	oldestMariaDB = [2]int{10, 6}
	oldestMySQL   = [2]int{8, 0}
	numbers       = regexp.MustCompile(`^v?(\d+)\.(\d+)(?:\.(\d+))?`)
)

func serverVersion(l *look, text string) {
	name, oldest := "MySQL", oldestMySQL
	if strings.Contains(text, "MariaDB") {
		name, oldest = "MariaDB", oldestMariaDB
		text = strings.TrimPrefix(text, "5.5.5-") // how some proxies spell it
	}
	have, ok := minor(text)
	switch {
	case !ok:
		l.add(checkVersion, Unknown, fmt.Sprintf("the server calls itself %q", text), "use MariaDB 10.6 or MySQL 8.0, or newer")
	case less(have, oldest):
		l.add(checkVersion, Broken, fmt.Sprintf("%s %s does not keep the ledger's invariants; %d.%d or newer is needed", name, text, oldest[0], oldest[1]), "upgrade the server first")
	default:
		l.add(checkVersion, OK, name+" "+text, "")
	}
}

// minor reads the first two numbers of a version.
func minor(text string) (v [2]int, ok bool) {
	m := numbers.FindStringSubmatch(text)
	if m == nil {
		return v, false
	}
	for i := range v {
		v[i], _ = strconv.Atoi(m[i+1]) // digits, by the expression
	}
	return v, true
}

func less(a, b [2]int) bool { return a[0] < b[0] || a[0] == b[0] && a[1] < b[1] }

// fewestConnections is what two controllers with their readers and writers
// take, and one program that looks on.
const fewestConnections = 60

func settings(l *look, s map[string]string) {
	found := len(l.all)
	if on(s["read_only"]) {
		l.add(checkSettings, Broken, "the server is read-only (read_only=ON)", "name the primary in the DSN, or end the read-only state")
	}
	if v := s["innodb_flush_log_at_trx_commit"]; v != "" && v != "1" {
		l.add(checkSettings, Warning, "innodb_flush_log_at_trx_commit is "+v+": a power cut loses commits that were answered, and the ledger may come back older than what was delivered", "set it to 1")
	}
	if n, err := strconv.Atoi(s["max_connections"]); err == nil && n < fewestConnections {
		l.add(checkSettings, Warning, fmt.Sprintf("max_connections is %d; two controllers take up to %d", n, fewestConnections), "set it to 151 or more")
	}
	if len(l.all) == found {
		l.add(checkSettings, OK, "writes are durable and connections suffice", "")
	}
}

// file looks at a ledger of one machine.
func file(ctx context.Context, path string, ledger chan<- known) []Finding {
	defer close(ledger)
	l := &look{part: "database"}
	inspect := func(ctx context.Context) (sqlledger.Inspection, error) { return sqlledger.InspectSQLite(ctx, path) }
	i, err := inspect(ctx)
	if err != nil {
		l.add(checkReach, Broken, err.Error(), "name the data directory of a `modeldock up` by --data-dir; it must be readable")
		return l.all
	}
	if i.Version > 0 {
		l.add(checkReach, OK, i.Where+" is a ledger ("+i.Server+")", "")
	}
	schema(l, i)
	if i.Incarnation != "" {
		db := known{i.Incarnation, i.JournalSeq, inspect}
		ledger <- db
		age(ctx, l, path, db)
	}
	return l.all
}

func schema(l *look, i sqlledger.Inspection) {
	switch {
	case i.Newer():
		l.add(checkSchema, Broken, fmt.Sprintf("schema version %d was made by a newer program; this one knows up to %d and refuses to start", i.Version, i.Known), "run the newer program, or restore a backup made before its upgrade")
	case i.Version == 0:
		l.add(checkSchema, Pending, fmt.Sprintf("no ledger is at %s yet; the first start makes schema version %d", i.Where, i.Known), "")
	case len(i.Pending) > 0:
		l.add(checkSchema, Pending, fmt.Sprintf("schema version %d; %d migrations lead to %d: %s", i.Version, len(i.Pending), i.Known, strings.Join(i.Pending, ", ")),
			"make a backup (`modeldock ledger export`); then the first process of the new version migrates, or do it beforehand with `modeldock migrate`. There is no way back but the backup")
	default:
		l.add(checkSchema, OK, fmt.Sprintf("schema version %d is current", i.Version), "")
	}
	if i.Incarnation != "" {
		l.add(checkIdentity, OK, fmt.Sprintf("ledger %s, journal entry %d", i.Incarnation, i.JournalSeq), "")
	}
}
