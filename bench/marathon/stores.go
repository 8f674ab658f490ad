package main

import (
	"context"
	"fmt"
	"path/filepath"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/jsonledger"
	"modeldock.io/internal/budget/sqlledger"
	"modeldock.io/test/mariadb"
)

// store opens fresh ledgers of one kind. A round has at most perRound
// operations, because a JSON file is written whole at every change.
type store struct {
	perRound int64
	open     func(ctx context.Context, round int) (ledgers []budget.Ledger, drop func() error, err error)
	close    func() error
}

func openStore(ctx context.Context, name, dir string) (*store, error) {
	nothing := func() error { return nil }
	switch name {
	case "sqlite":
		return &store{50_000, func(ctx context.Context, round int) ([]budget.Ledger, func() error, error) {
			l, err := sqlledger.OpenSQLite(ctx, filepath.Join(dir, fmt.Sprintf("%d.db", round)), sqlledger.Options{})
			return []budget.Ledger{l}, nothing, err
		}, nothing}, nil
	case "json":
		return &store{150, func(_ context.Context, round int) ([]budget.Ledger, func() error, error) {
			l, err := jsonledger.Open(filepath.Join(dir, fmt.Sprintf("%d.json", round)), jsonledger.Options{})
			return []budget.Ledger{l}, nothing, err
		}, nothing}, nil
	case "mariadb":
		return onMariaDB(ctx, dir)
	}
	return nil, fmt.Errorf("there is no ledger %q: choose of sqlite, json, mariadb", name)
}

// onMariaDB opens every database twice, as two processes do.
func onMariaDB(ctx context.Context, dir string) (*store, error) {
	server, err := mariadb.Start(ctx, dir)
	if err != nil {
		return nil, err
	}
	return &store{50_000, func(ctx context.Context, _ int) ([]budget.Ledger, func() error, error) {
		name, drop, err := server.Create(ctx)
		if err != nil {
			return nil, nil, err
		}
		var both []budget.Ledger
		for range 2 {
			l, err := sqlledger.OpenMySQL(ctx, server.DSN(name), sqlledger.Options{})
			if err != nil {
				return nil, nil, err
			}
			both = append(both, l)
		}
		return both, drop, nil
	}, server.Stop}, nil
}
