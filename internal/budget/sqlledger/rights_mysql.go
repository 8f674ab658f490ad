package sqlledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// trial is the table on which a user's rights are tried.
const trial = "modeldock_preflight"

// ErrMigrating says that another process is changing the schema right now.
var ErrMigrating = errors.New("another process is migrating the ledger")

// TryRightsMySQL does once, to an empty table of its own that it removes
// again, what the ledger and its migrations do: what a user may is decided by
// grants, roles, and settings of the server together, and only trying tells.
// The error names everything that was refused. ErrMigrating if it is no time
// to try.
func TryRightsMySQL(ctx context.Context, dsn string) (err error) {
	db, where, err := inspected(dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var got sql.NullInt64 // held by the one connection, which is closed at the end
	if err := db.QueryRowContext(ctx, "SELECT GET_LOCK(CONCAT('modeldock:', DATABASE()), 2)").Scan(&got); err != nil {
		return fmt.Errorf("lock the ledger at %s: %w", where, err)
	}
	if got.Int64 != 1 {
		return ErrMigrating
	}
	// One that was killed while it tried may have left it.
	if _, err := db.ExecContext(ctx, "DROP TABLE IF EXISTS "+trial); err != nil {
		return fmt.Errorf("remove a table (DROP): %w", err)
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE "+trial+" (a VARBINARY(8) NOT NULL PRIMARY KEY, b BIGINT NOT NULL) ENGINE=InnoDB"); err != nil {
		return fmt.Errorf("make a table (CREATE): %w", err)
	}
	var refused []error
	for _, try := range []struct{ what, statement string }{
		{"change a table (ALTER)", "ALTER TABLE " + trial + " ADD COLUMN c BIGINT NOT NULL DEFAULT 0, ADD CONSTRAINT c_counts CHECK (c >= 0)"},
		{"make an index (INDEX)", "CREATE INDEX trial ON " + trial + " (b)"},
		{"make a trigger (TRIGGER)", "CREATE TRIGGER " + trial + " BEFORE DELETE ON " + trial + " FOR EACH ROW SET @modeldock_preflight = 1"},
		{"write a row (INSERT)", "INSERT INTO " + trial + " (a, b) VALUES ('a', 1)"},
		{"change a row (UPDATE)", "UPDATE " + trial + " SET b = 2"},
		{"read a row under lock (SELECT)", "SELECT a FROM " + trial + " FOR UPDATE"},
		{"remove a row (DELETE)", "DELETE FROM " + trial},
	} {
		if _, err := db.ExecContext(ctx, try.statement); err != nil {
			refused = append(refused, fmt.Errorf("%s: %w", try.what, err))
		}
	}
	if _, err := db.ExecContext(context.WithoutCancel(ctx), "DROP TABLE "+trial); err != nil {
		refused = append(refused, fmt.Errorf("remove a table (DROP): %w", err))
	}
	return errors.Join(refused...)
}
