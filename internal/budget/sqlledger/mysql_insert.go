package sqlledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"modeldock.io/internal/budget"
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

// insertTogether stores a group with a few statements of many rows. Nearly
// every request is new, so it is tried first: to ask whether each is costs the
// server as much as to store it. Only if the database refuses a statement is
// what is there already sorted out of it; the rest is tried once more, and if
// a race makes the database refuse that too, it is left out.
func insertTogether(ctx context.Context, w *writer, batch []*operation) error {
	fresh, err := withParents(ctx, w, stillAwaited(batch))
	for len(fresh) > 0 && err == nil {
		part := fresh[:min(len(fresh), maxRows)]
		fresh = fresh[len(part):]
		if err = insertPart(ctx, w, part); !w.dialect.isConstraint(err) {
			continue
		}
		if part, err = plainlyNew(ctx, w, part); err != nil || len(part) == 0 {
			continue
		}
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

// withParents leaves out those whose tenant or pool is not known.
func withParents(ctx context.Context, w *writer, batch []*operation) ([]*operation, error) {
	if len(batch) == 0 {
		return nil, nil
	}
	query, args := parentsQuery(batch)
	known, err := readKnown(ctx, w.session, query, args)
	if err != nil {
		return nil, fmt.Errorf("look for tenants and pools: %w", err)
	}
	kept := make([]*operation, 0, len(batch))
	for _, op := range batch {
		if known[collision{"tenant", op.fresh.Tenant, "", ""}] && known[collision{"pool", op.fresh.Pool, "", ""}] {
			kept = append(kept, op)
			continue
		}
		leaveOut([]*operation{op})
	}
	return kept, nil
}

// plainlyNew leaves out those whose id or model is stored already, or twice in
// the group.
func plainlyNew(ctx context.Context, w *writer, batch []*operation) ([]*operation, error) {
	query, args := knownQuery(batch)
	known, err := readKnown(ctx, w.session, query, args)
	if err != nil {
		return nil, fmt.Errorf("look for what is there already: %w", err)
	}
	fresh := make([]*operation, 0, len(batch))
	for _, op := range batch {
		f := op.fresh
		id, model := collision{"id", f.Tenant, f.ID, ""}, collision{"model", f.Tenant, f.Model.Name, f.Model.Version}
		if known[id] || known[model] {
			leaveOut([]*operation{op})
			continue
		}
		known[id], known[model] = true, true
		fresh = append(fresh, op)
	}
	return fresh, nil
}

// collision is something that a new request needs or must not meet: a tenant,
// a pool, an id or a live model.
type collision struct{ kind, a, b, c string }

func readKnown(ctx context.Context, s *session, query string, args []any) (map[collision]bool, error) {
	rows, err := s.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	known := map[collision]bool{}
	for rows.Next() {
		var k collision
		if err := rows.Scan(&k.kind, &k.a, &k.b, &k.c); err != nil {
			return nil, err
		}
		known[k] = true
	}
	return known, rows.Err()
}

// rowsOf is n times row, for IN.
func rowsOf(row string, n int) string { return "(" + row + strings.Repeat(", "+row, n-1) + ")" }

// parentsQuery asks for the group's tenants and for all pools.
func parentsQuery(batch []*operation) (query string, args []any) {
	asked := map[string]bool{}
	for _, op := range batch {
		if !asked[op.fresh.Tenant] {
			asked[op.fresh.Tenant] = true
			args = append(args, op.fresh.Tenant)
		}
	}
	return "SELECT 'tenant', tenant, '', '' FROM tenant_quota WHERE tenant IN " + rowsOf("?", len(args)) +
		" UNION ALL SELECT 'pool', pool, '', '' FROM gpu_pool", args
}

// knownQuery asks in one round trip for every id and live model of the group.
func knownQuery(batch []*operation) (query string, args []any) {
	n := len(batch)
	query = "SELECT 'id', tenant, id, '' FROM reservation WHERE (tenant, id) IN " + rowsOf("(?, ?)", n) +
		" UNION ALL SELECT 'model', tenant, model_name, model_version FROM reservation" +
		" WHERE live = 1 AND (tenant, model_name, model_version) IN " + rowsOf("(?, ?, ?)", n)
	var ids, models []any
	for _, op := range batch {
		f := op.fresh
		ids, models = append(ids, f.Tenant, f.ID), append(models, f.Tenant, f.Model.Name, f.Model.Version)
	}
	return query, slices.Concat(ids, models)
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
