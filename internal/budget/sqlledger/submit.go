package sqlledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
)

// Submit stores a waiting reservation or returns the one that is there.
func (l *Ledger) Submit(ctx context.Context, s budget.Submission) (budget.Reservation, error) {
	if err := s.Validate(); err != nil {
		return budget.Reservation{}, err
	}
	// Everything that needs no transaction is done before the queue.
	spec, err := json.Marshal(s.Model)
	if err != nil {
		return budget.Reservation{}, fmt.Errorf("encode the model: %w", err)
	}
	hash := s.Hash()
	if len(l.inserters) > 0 {
		if r, err := l.submitFresh(ctx, s, spec, hash); !errors.Is(err, errNotFresh) {
			return r, err
		}
	}
	return change(ctx, l, "submit", func(ctx context.Context, t *transaction) (budget.Reservation, error) {
		return submit(ctx, t, s, spec, hash)
	})
}

// submit tries the insert first: nearly every submission is new, and then one
// statement does it all. The constraints tell when it is not.
func submit(ctx context.Context, t *transaction, s budget.Submission, spec []byte, hash string) (budget.Reservation, error) {
	r, err := insert(ctx, t, s, spec, hash)
	if !t.dialect.isConstraint(err) {
		return r, err
	}
	if r, err = resubmit(ctx, t, s); !errors.Is(err, sql.ErrNoRows) {
		return r, err
	}
	if _, err := t.q.GetPool(ctx, s.Pool); errors.Is(err, sql.ErrNoRows) {
		return r, refuse(&budget.UnknownPoolError{Pool: s.Pool})
	} else if err != nil {
		return r, err
	}
	holder, err := t.q.LiveModelHolder(ctx, sqlitequery.LiveModelHolderParams{Tenant: s.Tenant, ModelName: s.Model.Name, ModelVersion: s.Model.Version})
	if err == nil {
		return r, refuse(&budget.ModelInUseError{Model: s.Model.Name, Version: s.Model.Version, Holder: holder})
	} else if !errors.Is(err, sql.ErrNoRows) {
		return r, err
	}
	// A tenant's first submission: it is known from now on, with nothing to spend.
	created, err := t.q.EnsureTenant(ctx, s.Tenant)
	if err != nil {
		return r, err
	}
	if created == 1 {
		t.changed("quota", budget.Ref{Tenant: s.Tenant}, 0)
	}
	return insert(ctx, t, s, spec, hash)
}

func insert(ctx context.Context, t *transaction, s budget.Submission, spec []byte, hash string) (budget.Reservation, error) {
	expires := t.now.Add(s.TTL)
	seq, err := t.q.InsertReservation(ctx, sqlitequery.InsertReservationParams{
		Tenant: s.Tenant, ID: s.ID, Cost: s.Cost, Priority: int64(s.Priority), Need: s.Need(),
		ModelName: s.Model.Name, ModelVersion: s.Model.Version, Spec: spec, SpecHash: hash, Pool: s.Pool,
		CreatedAt: micros(t.now), ExpiresAt: micros(expires),
	})
	if err != nil {
		return budget.Reservation{}, fmt.Errorf("insert the reservation: %w", err)
	}
	t.changed("request", s.Ref, 1)
	return newReservation(s, seq, hash, t.now), nil
}

// newReservation is what a submission's row says right after its insert.
func newReservation(s budget.Submission, seq int64, hash string, now time.Time) budget.Reservation {
	return budget.Reservation{
		Ref: s.Ref, Seq: seq, Revision: 1, Generation: 1, Cost: s.Cost, Priority: s.Priority, Model: s.Model, SpecHash: hash,
		State: budget.Waiting, Pool: s.Pool, Submits: 1, CreatedAt: now, ExpiresAt: now.Add(s.TTL),
	}
}

// resubmit answers for an id that exists; sql.ErrNoRows if it does not.
func resubmit(ctx context.Context, t *transaction, s budget.Submission) (budget.Reservation, error) {
	row, err := t.q.GetReservation(ctx, sqlitequery.GetReservationParams{Tenant: s.Tenant, ID: s.ID})
	if err != nil {
		return budget.Reservation{}, err
	}
	r, err := reservation(row)
	if err != nil {
		return r, err
	}
	if conflict, differs := budget.Differs(r, s); differs {
		return r, refuse(conflict)
	}
	if err := exactlyOne(t.q.CountSubmit(ctx, sqlitequery.CountSubmitParams{Tenant: s.Tenant, ID: s.ID})); err != nil {
		return r, fmt.Errorf("count the submit: %w", err)
	}
	r.Submits++
	t.changed("request", r.Ref, r.Revision)
	return r, nil
}
