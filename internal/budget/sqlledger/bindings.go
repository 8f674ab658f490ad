package sqlledger

import (
	"context"
	"errors"
	"fmt"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
)

// boundTo reads a binding inside a transaction; known is false if there is none.
func boundTo(ctx context.Context, t *transaction, ref budget.Ref) (b budget.Binding, known bool, err error) {
	row, err := t.q.GetBinding(ctx, sqlitequery.GetBindingParams{Tenant: ref.Tenant, ID: ref.ID})
	if absent(err) {
		return b, false, nil
	}
	if err != nil {
		return b, false, fmt.Errorf("read the binding of request %s/%s: %w", ref.Tenant, ref.ID, err)
	}
	return binding(row), true, nil
}

// bind gives an unbound reservation its object; the schema refuses an object
// that another one has (INV3).
func bind(ctx context.Context, t *transaction, ref budget.Ref, obj budget.Object) error {
	err := t.q.InsertBinding(ctx, sqlitequery.InsertBindingParams{
		Tenant: ref.Tenant, ID: ref.ID, Namespace: obj.Namespace, Name: obj.Name, Uid: obj.UID, BoundAt: micros(t.now),
	})
	if !t.dialect.isConstraint(err) {
		return err
	}
	rows, lookup := t.q.BindingsByObject(ctx, sqlitequery.BindingsByObjectParams{Uid: obj.UID, Namespace: obj.Namespace, Name: obj.Name})
	if lookup != nil || len(rows) == 0 {
		return fmt.Errorf("bind request %s/%s: %w", ref.Tenant, ref.ID, errors.Join(err, lookup))
	}
	holder := binding(rows[0])
	for _, row := range rows { // whoever has the UID says more than whoever has the name
		if row.Uid == obj.UID {
			holder = binding(row)
		}
	}
	return refuse(&budget.BoundElsewhereError{Ref: holder.Ref, Have: holder.Object, Got: obj})
}

// Binding returns what a reservation is bound to.
func (l *Ledger) Binding(ctx context.Context, ref budget.Ref) (budget.Binding, error) {
	return single(ctx, l, "read the binding", func(q queries) (budget.Binding, error) {
		row, err := q.GetBinding(ctx, sqlitequery.GetBindingParams{Tenant: ref.Tenant, ID: ref.ID})
		if err != nil {
			return budget.Binding{}, found(err)
		}
		return binding(row), nil
	})
}

// LiveBindings returns the bindings of all requests that hold slots.
func (l *Ledger) LiveBindings(ctx context.Context) (map[budget.Ref]budget.Binding, error) {
	return single(ctx, l, "read the live bindings", func(q queries) (map[budget.Ref]budget.Binding, error) {
		rows, err := q.LiveBindings(ctx)
		if err != nil {
			return nil, err
		}
		out := make(map[budget.Ref]budget.Binding, len(rows))
		for _, row := range rows {
			b := binding(row)
			out[b.Ref] = b
		}
		return out, nil
	})
}

// MarkReady records the first readiness of the bound UID.
func (l *Ledger) MarkReady(ctx context.Context, ref budget.Ref, uid string) error {
	_, err := change(ctx, l, "mark ready", func(ctx context.Context, t *transaction) (struct{}, error) {
		rows, err := t.q.MarkReady(ctx, sqlitequery.MarkReadyParams{Now: nullMicros(t.now), Tenant: ref.Tenant, ID: ref.ID, Uid: uid})
		if rows > 0 {
			t.changed("request", ref, 0)
		}
		return struct{}{}, err
	})
	return err
}

// MarkGone records that the bound object is gone.
func (l *Ledger) MarkGone(ctx context.Context, ref budget.Ref, uid string) error {
	_, err := change(ctx, l, "mark gone", func(ctx context.Context, t *transaction) (struct{}, error) {
		rows, err := t.q.MarkGone(ctx, sqlitequery.MarkGoneParams{Now: nullMicros(t.now), Tenant: ref.Tenant, ID: ref.ID, Uid: uid})
		if rows > 0 {
			t.changed("request", ref, 0)
		}
		return struct{}{}, err
	})
	return err
}
