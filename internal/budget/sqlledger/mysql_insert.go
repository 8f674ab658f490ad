package sqlledger

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger/mysqlquery"
)

// errNotFresh hands a submission over to the rules' own code: the id or the
// model may be there already, or the tenant is not.
var errNotFresh = errors.New("not a plain new request")

// freshRequest is a submission on its way through an inserting writer.
type freshRequest struct {
	budget.Submission
	spec   []byte
	hash   string
	stored budget.Reservation
}

// submitFresh puts a new request together with whatever else has gathered.
// Nearly every submission is new; the others are answered with errNotFresh.
func (l *Ledger) submitFresh(ctx context.Context, s budget.Submission, spec []byte, hash string) (budget.Reservation, error) {
	op := &operation{ctx: ctx, fresh: &freshRequest{Submission: s, spec: spec, hash: hash}, done: make(chan error, 1)}
	if err := l.inserters[0].await(ctx, "submit", op); err != nil {
		return budget.Reservation{}, err
	}
	return op.fresh.stored, nil
}

// insertTogether stores a group with a few statements of many rows. What is
// not plainly new is left out; if a race makes the database refuse a
// statement, its whole group is left out.
func insertTogether(ctx context.Context, w *writer, batch []*operation) error {
	batch = stillAwaited(batch)
	fresh, err := plainlyNew(ctx, w, batch)
	for len(fresh) > 0 && err == nil {
		part := fresh[:min(len(fresh), maxRows)]
		fresh = fresh[len(part):]
		if err = insertPart(ctx, w, part); w.dialect.isConstraint(err) {
			leaveOut(part)
			err = nil
		}
	}
	return err
}

// stillAwaited passes over those whose callers have left.
func stillAwaited(batch []*operation) []*operation {
	kept := make([]*operation, 0, len(batch))
	for _, op := range batch {
		op.err, op.change = nil, nil
		if !op.abandoned() {
			kept = append(kept, op)
		}
	}
	return kept
}

func leaveOut(ops []*operation) {
	for _, op := range ops {
		op.err, op.change = refuse(errNotFresh), nil
	}
}

// plainlyNew sorts the group: known tenants and pools, ids that are neither
// stored nor twice in the group.
func plainlyNew(ctx context.Context, w *writer, batch []*operation) ([]*operation, error) {
	if len(batch) == 0 {
		return nil, nil
	}
	known, err := readKnown(ctx, w.session, batch)
	if err != nil {
		return nil, err
	}
	fresh := make([]*operation, 0, len(batch))
	for _, op := range batch {
		f := op.fresh
		model := budget.Ref{Tenant: f.Tenant, ID: f.Model.Name + "\x00" + f.Model.Version}
		if !known.tenants[f.Tenant] || !known.pools[f.Pool] || known.ids[f.Ref] || known.models[model] {
			leaveOut([]*operation{op})
			continue
		}
		known.ids[f.Ref], known.models[model] = true, true
		fresh = append(fresh, op)
	}
	return fresh, nil
}

// known is what a group's requests may collide with.
type known struct {
	tenants, pools map[string]bool
	ids, models    map[budget.Ref]bool
}

func readKnown(ctx context.Context, s *session, batch []*operation) (k known, err error) {
	k = known{tenants: map[string]bool{}, pools: map[string]bool{}, ids: map[budget.Ref]bool{}, models: map[budget.Ref]bool{}}
	names := map[string]bool{}
	var tenants []string
	pairs := make([]any, 0, 2*len(batch))
	for _, op := range batch {
		if !names[op.fresh.Tenant] {
			names[op.fresh.Tenant] = true
			tenants = append(tenants, op.fresh.Tenant)
		}
		pairs = append(pairs, op.fresh.Tenant, op.fresh.ID)
	}
	q := mysqlquery.New(s)
	have, err := q.KnownTenants(ctx, tenants)
	if err != nil {
		return k, fmt.Errorf("look for the tenants: %w", err)
	}
	for _, name := range have {
		k.tenants[name] = true
	}
	pools, err := q.KnownPools(ctx)
	if err != nil {
		return k, fmt.Errorf("look for the pools: %w", err)
	}
	for _, name := range pools {
		k.pools[name] = true
	}
	return k, readKnownIDs(ctx, s, pairs, k.ids)
}

func readKnownIDs(ctx context.Context, s *session, pairs []any, ids map[budget.Ref]bool) error {
	query := "SELECT tenant, id FROM reservation WHERE (tenant, id) IN ((?, ?)" + strings.Repeat(", (?, ?)", len(pairs)/2-1) + ")"
	rows, err := s.QueryContext(ctx, query, pairs...)
	if err != nil {
		return fmt.Errorf("look for the ids: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var ref budget.Ref
		if err := rows.Scan(&ref.Tenant, &ref.ID); err != nil {
			return fmt.Errorf("look for the ids: %w", err)
		}
		ids[ref] = true
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("look for the ids: %w", err)
	}
	return nil
}

func insertPart(ctx context.Context, w *writer, part []*operation) error {
	const width = 12
	now := w.now()
	args := make([]any, 0, width*len(part))
	for _, op := range part {
		f := op.fresh
		args = append(args, f.Tenant, f.ID, f.Cost, f.Priority, f.Need(), f.Model.Name, f.Model.Version, f.spec, f.hash, f.Pool, micros(now), micros(now.Add(f.TTL)))
	}
	first, err := insertRows(ctx, w.session, requestRows, width, args)
	if err != nil {
		return fmt.Errorf("insert %d requests: %w", len(part), err)
	}
	for i, op := range part {
		op.fresh.stored = newReservation(op.fresh.Submission, first+int64(i)*w.session.step, op.fresh.hash, now)
		op.change = []budget.Change{{Topic: "request", Ref: op.fresh.Ref, Revision: 1}}
	}
	return nil
}
