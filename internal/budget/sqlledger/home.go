package sqlledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"modeldock.io/internal/budget/sqlledger/sqlitequery"
)

// homeKey names the row that says where this ledger's models run.
const homeKey = "home"

// Home binds the ledger to the one place that its models run at, and returns
// the place that it is bound to: the first caller's, for good. Two places
// would each start what the other one runs already. With move the place is
// changed; the caller makes sure that nothing runs at the old one any more.
func (l *Ledger) Home(ctx context.Context, place string, move bool) (string, error) {
	return change(ctx, l, "bind the ledger to "+place, func(ctx context.Context, t *transaction) (string, error) {
		if move {
			if err := t.q.DropMeta(ctx, homeKey); err != nil {
				return "", fmt.Errorf("forget the old place: %w", err)
			}
		}
		if err := t.q.PutMetaOnce(ctx, sqlitequery.PutMetaOnceParams{Name: homeKey, Value: place}); err != nil {
			return "", fmt.Errorf("store the place: %w", err)
		}
		return t.q.GetMeta(ctx, homeKey)
	})
}

// ErrHomeHeld says that another process runs the ledger's models right now.
var ErrHomeHeld = errors.New("another process runs the models of this database")

// Hold keeps other processes from running the ledger's models for as long as
// it is not released: a lock of the database's own, which ends with the
// connection. Check takes it again where the connection was lost.
type Hold struct {
	ledger *Ledger
	name   string
	conn   *sql.Conn
}

// HoldHome takes the lock; ErrHomeHeld if another process has it. Only MySQL
// and MariaDB have such locks: a data directory with its own ledger is locked
// as a whole.
func (l *Ledger) HoldHome(ctx context.Context) (*Hold, error) {
	incarnation, _, err := l.Identity(ctx)
	if err != nil {
		return nil, err
	}
	h := &Hold{ledger: l, name: "modeldock-home-" + incarnation}
	return h, h.Check(ctx)
}

// Check returns nil while the lock is held.
func (h *Hold) Check(ctx context.Context) error {
	if h.conn != nil {
		if h.conn.PingContext(ctx) == nil {
			return nil
		}
		_ = h.conn.Close()
		h.conn = nil
	}
	conn, err := h.ledger.write.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect to hold the home of the ledger's models: %w", err)
	}
	var got sql.NullInt64
	err = conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 0)", h.name).Scan(&got)
	if err == nil && got.Int64 != 1 {
		err = ErrHomeHeld
	}
	if err != nil {
		return errors.Join(fmt.Errorf("hold the home of the ledger's models: %w", err), conn.Close())
	}
	h.conn = conn
	return nil
}

// Release lets another process have it.
func (h *Hold) Release() error {
	if h.conn == nil {
		return nil
	}
	_, err := h.conn.ExecContext(context.Background(), "DO RELEASE_LOCK(?)", h.name)
	return errors.Join(err, h.conn.Close())
}
