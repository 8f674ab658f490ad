package sqlledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"modeldock.io/internal/budget"
)

// change runs one writing operation in the next group commit. Its answer is
// only returned after the commit.
func change[T any](ctx context.Context, l *Ledger, what string, run func(ctx context.Context, t *transaction) (T, error)) (T, error) {
	return changeBy(ctx, l.writer, what, run)
}

func changeBy[T any](ctx context.Context, w *writer, what string, run func(ctx context.Context, t *transaction) (T, error)) (T, error) {
	var out, none T
	err := w.do(ctx, what, func(ctx context.Context, t *transaction) (err error) {
		out, err = run(ctx, t)
		return err
	})
	if err != nil {
		// The operation may still be running when the caller left: out is not read.
		return none, err
	}
	return out, nil
}

// view runs queries on one consistent snapshot, beside the writer.
func view[T any](ctx context.Context, l *Ledger, what string, run func(q queries) (T, error)) (T, error) {
	return readBy(ctx, l, l.reads.snapshot, what, run)
}

// single is view for what asks one statement only. It may run twice.
func single[T any](ctx context.Context, l *Ledger, what string, run func(q queries) (T, error)) (T, error) {
	return readBy(ctx, l, l.reads.statement, what, run)
}

func readBy[T any](ctx context.Context, l *Ledger, way func(context.Context, func(*session) error) error, what string, run func(q queries) (T, error)) (T, error) {
	var out, none T
	err := way(ctx, func(s *session) (err error) {
		out, err = run(l.dialect.queries(s))
		return err
	})
	var refused refusal
	switch {
	case err == nil:
		return out, nil
	case errors.As(err, &refused):
		return none, refused.error
	}
	return none, fmt.Errorf("%s: %w: %w", what, budget.ErrUnavailable, err)
}

// found turns the absence of a row into the rules' answer.
func found(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return refuse(budget.ErrNotFound)
	}
	return err
}

// exactlyOne fails the group if a statement that must hit one row did not:
// the rows were read in the same transaction, so something is badly wrong.
func exactlyOne(rows int64, err error) error {
	if err == nil && rows != 1 {
		return fmt.Errorf("%d rows were changed where 1 must be", rows)
	}
	return err
}
