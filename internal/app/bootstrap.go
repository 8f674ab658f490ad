package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
)

// ErrHasKeys says that a ledger was prepared before.
var ErrHasKeys = errors.New("the ledger holds keys already")

// Bootstrap prepares the ledger of a new installation: its tables, the pool
// "default" with the given cap if there is no pool, and one admin key. keep
// gets the key before the ledger does: if it fails, the ledger has no key whose
// secret nobody knows. ErrHasKeys, and no change to keys, if there are any.
func Bootstrap(ctx context.Context, dsn string, poolCap int64, keep func(key string) error, out io.Writer) (err error) {
	if dsn == "" {
		return errNoDSN
	}
	l, err := sqlledger.OpenMySQL(ctx, dsn, sqlledger.Options{Logger: slog.New(slog.NewTextHandler(out, nil))})
	if err != nil {
		return fmt.Errorf("open the ledger: %w", err)
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	pools, err := l.Pools(ctx)
	if err != nil {
		return fmt.Errorf("read the pools: %w", err)
	}
	if len(pools) == 0 {
		if _, err := l.SetPool(ctx, budget.DefaultPool, poolCap); err != nil {
			return fmt.Errorf("make the pool %s: %w", budget.DefaultPool, err)
		}
	}
	keys, err := l.Keys(ctx)
	if err != nil {
		return fmt.Errorf("read the keys: %w", err)
	}
	if len(keys) > 0 {
		return fmt.Errorf("%w (%d): make another one with `modeldock key create --role admin`", ErrHasKeys, len(keys))
	}
	text, minted := budget.MintKey(budget.RoleAdmin, "", time.Now(), 0)
	if err := keep(text); err != nil {
		return fmt.Errorf("keep the first key: %w", err)
	}
	if err := l.CreateKey(ctx, minted); err != nil {
		return fmt.Errorf("store the first key: %w", err)
	}
	return nil
}
