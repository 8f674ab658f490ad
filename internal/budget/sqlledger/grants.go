package sqlledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
)

// Grants lists all grants.
func (l *Ledger) Grants(ctx context.Context) ([]budget.Grant, error) {
	return single(ctx, l, "list the grants", func(q queries) ([]budget.Grant, error) {
		rows, err := q.ListGrants(ctx)
		out := make([]budget.Grant, 0, len(rows))
		for _, row := range rows {
			out = append(out, grant(row))
		}
		return out, err
	})
}

// EndedGrants lists those that ended.
func (l *Ledger) EndedGrants(ctx context.Context) ([]budget.EndedGrant, error) {
	return single(ctx, l, "list the grants that ended", func(q queries) ([]budget.EndedGrant, error) {
		rows, err := q.ListEndedGrants(ctx)
		out := make([]budget.EndedGrant, 0, len(rows))
		for _, row := range rows {
			out = append(out, endedGrant(row))
		}
		return out, err
	})
}

func grant(row sqlitequery.ModelGrant) budget.Grant {
	return budget.Grant{Owner: row.Owner, Model: row.Model, Grantee: row.Grantee, At: moment(row.At)}
}

func endedGrant(row sqlitequery.EndedGrant) budget.EndedGrant {
	return budget.EndedGrant{
		Grant:   budget.Grant{Owner: row.Owner, Model: row.Model, Grantee: row.Grantee, At: moment(row.At)},
		EndedAt: moment(row.EndedAt), Declined: row.Declined != 0,
	}
}

func endGrantParams(g budget.EndedGrant) sqlitequery.EndGrantParams {
	return sqlitequery.EndGrantParams{Owner: g.Owner, Model: g.Model, Grantee: g.Grantee, At: micros(g.At), EndedAt: micros(g.EndedAt), Declined: flag(g.Declined)}
}

// PutGrant permits a tenant to call another's model; repeating it changes nothing.
func (l *Ledger) PutGrant(ctx context.Context, g budget.Grant, anew bool) (bool, error) {
	if err := g.Validate(); err != nil {
		return false, err
	}
	return change(ctx, l, "put the grant", func(ctx context.Context, t *transaction) (bool, error) {
		// Dropped first and asked then: who declines at the same time is waited for.
		if _, err := t.q.DropEndedGrant(ctx, sqlitequery.DropEndedGrantParams{Owner: g.Owner, Model: g.Model, Grantee: g.Grantee, Declined: flag(anew)}); err != nil {
			return false, fmt.Errorf("forget that it ended: %w", err)
		}
		switch at, err := t.q.DeclinedAt(ctx, sqlitequery.DeclinedAtParams{Owner: g.Owner, Model: g.Model, Grantee: g.Grantee}); {
		case err == nil:
			return false, &budget.DeclinedError{Grant: g, At: moment(at)}
		case !errors.Is(err, sql.ErrNoRows):
			return false, fmt.Errorf("ask whether it was declined: %w", err)
		}
		// What an insert says of a row that is there differs between databases.
		switch _, err := t.q.GrantedAt(ctx, sqlitequery.GrantedAtParams{Owner: g.Owner, Model: g.Model, Grantee: g.Grantee}); {
		case err == nil:
			return false, nil
		case !errors.Is(err, sql.ErrNoRows):
			return false, fmt.Errorf("ask whether it is there: %w", err)
		}
		at := g.At
		if at.IsZero() {
			at = t.now
		}
		t.changed("ledger", budget.Ref{Tenant: g.Owner}, 0)
		return true, t.q.PutGrant(ctx, sqlitequery.PutGrantParams{Owner: g.Owner, Model: g.Model, Grantee: g.Grantee, At: micros(at)})
	})
}

// DeleteGrant ends a grant; one that is not there is no error.
func (l *Ledger) DeleteGrant(ctx context.Context, owner, model, grantee string, declined bool) (bool, error) {
	return change(ctx, l, "delete the grant", func(ctx context.Context, t *transaction) (bool, error) {
		ended := sqlitequery.EndGrantParams{Owner: owner, Model: model, Grantee: grantee, EndedAt: micros(t.now), Declined: flag(declined)}
		var err error
		switch ended.At, err = t.q.GrantedAt(ctx, sqlitequery.GrantedAtParams{Owner: owner, Model: model, Grantee: grantee}); {
		case errors.Is(err, sql.ErrNoRows):
			return declineEnded(ctx, t, ended)
		case err != nil:
			return false, fmt.Errorf("ask whether it is there: %w", err)
		}
		rows, err := t.q.DeleteGrant(ctx, sqlitequery.DeleteGrantParams{Owner: owner, Model: model, Grantee: grantee})
		switch {
		case err != nil:
			return false, err
		case rows == 0: // somebody was faster
			return declineEnded(ctx, t, ended)
		}
		t.changed("ledger", budget.Ref{Tenant: owner}, 0)
		// A program of before does not forget that it ended when it grants anew.
		if _, err := t.q.DropEndedGrant(ctx, sqlitequery.DropEndedGrantParams{Owner: owner, Model: model, Grantee: grantee, Declined: flag(true)}); err != nil {
			return false, fmt.Errorf("forget that it ended before: %w", err)
		}
		if err := t.q.EndGrant(ctx, ended); err != nil {
			return false, fmt.Errorf("remember that it ended: %w", err)
		}
		return true, dropOldestEnded(ctx, t, owner)
	})
}

// declineEnded has a grantee say of a grant which its owner took back that it
// does not want it.
func declineEnded(ctx context.Context, t *transaction, g sqlitequery.EndGrantParams) (bool, error) {
	if g.Declined == 0 {
		return false, nil
	}
	rows, err := t.q.DeclineEndedGrant(ctx, sqlitequery.DeclineEndedGrantParams{Owner: g.Owner, Model: g.Model, Grantee: g.Grantee, EndedAt: g.EndedAt})
	if rows > 0 {
		t.changed("ledger", budget.Ref{Tenant: g.Owner}, 0)
	}
	return rows > 0, err
}

// dropOldestEnded forgets what an owner took back beyond what is remembered.
func dropOldestEnded(ctx context.Context, t *transaction, owner string) error {
	beyond, err := t.q.EndedGrantBeyond(ctx, sqlitequery.EndedGrantBeyondParams{Owner: owner, Offset: budget.MaxEndedGrants})
	if err == nil && len(beyond) > 0 {
		_, err = t.q.DropEndedGrantsUntil(ctx, sqlitequery.DropEndedGrantsUntilParams{Owner: owner, EndedAt: beyond[0]})
	}
	if err != nil {
		return fmt.Errorf("forget the owner's oldest grants that ended: %w", err)
	}
	return nil
}

// countGrants counts what an owner has granted, and what was declined: that is
// never forgotten.
func countGrants(ctx context.Context, q queries, owner string) (int64, error) {
	live, err := q.CountGrants(ctx, owner)
	if err != nil {
		return 0, fmt.Errorf("count the owner's grants: %w", err)
	}
	declined, err := q.CountDeclined(ctx, owner)
	return live + declined, err
}

// OwnedNames returns every model name that a tenant ever submitted.
func (l *Ledger) OwnedNames(ctx context.Context) (map[string][]string, error) {
	return single(ctx, l, "read the owned names", func(q queries) (map[string][]string, error) {
		rows, err := q.OwnedNames(ctx)
		out := map[string][]string{}
		for _, row := range rows {
			out[row.Tenant] = append(out[row.Tenant], row.ModelName)
		}
		return out, err
	})
}
