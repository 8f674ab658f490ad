package sqlledger

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
)

// CreateKey stores a key; an id that exists is refused.
func (l *Ledger) CreateKey(ctx context.Context, k budget.APIKey) error {
	return l.touch(ctx, "create key "+k.ID, func(ctx context.Context, t *transaction) error {
		t.changed("ledger", budget.Ref{Tenant: k.Tenant, ID: k.ID}, 0)
		return t.q.CreateKey(ctx, sqlitequery.CreateKeyParams{
			KeyID: k.ID, Tenant: k.Tenant, Role: string(k.Role), SecretHash: k.SecretHash[:], CreatedAt: micros(k.CreatedAt),
			ExpiresAt: nullMicros(k.ExpiresAt), RevokedAt: nullMicros(k.RevokedAt), LastUsedAt: nullMicros(k.LastUsedAt),
		})
	})
}

// touch is a change without an answer.
func (l *Ledger) touch(ctx context.Context, what string, run func(ctx context.Context, t *transaction) error) error {
	_, err := change(ctx, l, what, func(ctx context.Context, t *transaction) (struct{}, error) {
		return struct{}{}, run(ctx, t)
	})
	return err
}

// Keys lists all keys, the oldest first.
func (l *Ledger) Keys(ctx context.Context) ([]budget.APIKey, error) {
	return single(ctx, l, "list the keys", func(q queries) ([]budget.APIKey, error) {
		rows, err := q.ListKeys(ctx)
		if err != nil {
			return nil, err
		}
		out := make([]budget.APIKey, 0, len(rows))
		for _, row := range rows {
			out = append(out, key(row))
		}
		return out, nil
	})
}

// Key returns one key, whether or not it may still be used.
func (l *Ledger) Key(ctx context.Context, id string) (budget.APIKey, error) {
	return single(ctx, l, "read the key", func(q queries) (budget.APIKey, error) {
		row, err := q.GetKey(ctx, id)
		if err != nil {
			return budget.APIKey{}, found(err)
		}
		return key(row), nil
	})
}

func key(row sqlitequery.ApiKey) budget.APIKey {
	k := budget.APIKey{
		ID: row.KeyID, Tenant: row.Tenant, Role: budget.Role(row.Role), CreatedAt: moment(row.CreatedAt),
		ExpiresAt: nullMoment(row.ExpiresAt), RevokedAt: nullMoment(row.RevokedAt), LastUsedAt: nullMoment(row.LastUsedAt),
	}
	copy(k.SecretHash[:], row.SecretHash)
	return k
}

// RevokeKey ends a key for good; its time is that of the first call.
func (l *Ledger) RevokeKey(ctx context.Context, id string) error {
	return l.touch(ctx, "revoke key "+id, func(ctx context.Context, t *transaction) error {
		rows, err := t.q.RevokeKey(ctx, sqlitequery.RevokeKeyParams{Now: nullMicros(t.now), KeyID: id})
		if err == nil && rows == 0 {
			return found(sql.ErrNoRows)
		}
		t.changed("ledger", budget.Ref{ID: id}, 0)
		return err
	})
}

// TouchKeys records last uses; unknown keys are passed over.
func (l *Ledger) TouchKeys(ctx context.Context, used map[string]time.Time) error {
	if len(used) == 0 {
		return nil
	}
	uses := maps.Clone(used) // the caller may go on counting
	return l.touch(ctx, "record the use of keys", func(ctx context.Context, t *transaction) error {
		for _, id := range slices.Sorted(maps.Keys(uses)) {
			if _, err := t.q.TouchKey(ctx, sqlitequery.TouchKeyParams{Used: nullMicros(uses[id]), KeyID: id}); err != nil {
				return fmt.Errorf("key %s: %w", id, err)
			}
		}
		return nil
	})
}

// CreateSession stores a session and drops expired ones, and the key's oldest
// beyond what one key may have, on the way.
func (l *Ledger) CreateSession(ctx context.Context, s budget.Session) error {
	return l.touch(ctx, "create the session", func(ctx context.Context, t *transaction) error {
		if _, err := t.q.DropExpiredSessions(ctx, micros(t.now)); err != nil {
			return err
		}
		if err := dropOldestSessions(ctx, t, s.KeyID); err != nil {
			return err
		}
		return t.q.CreateSession(ctx, sqlitequery.CreateSessionParams{
			IDHash: s.IDHash[:], KeyID: s.KeyID, CsrfToken: s.CSRFToken, CreatedAt: micros(s.CreatedAt), ExpiresAt: micros(s.ExpiresAt),
		})
	})
}

// dropOldestSessions makes room for one more of the key's.
func dropOldestSessions(ctx context.Context, t *transaction, keyID string) error {
	begun, err := t.q.SessionsOf(ctx, sqlitequery.SessionsOfParams{KeyID: keyID, Limit: budget.MaxSessions})
	if err == nil && len(begun) == budget.MaxSessions {
		_, err = t.q.DropSessionsUntil(ctx, sqlitequery.DropSessionsUntilParams{KeyID: keyID, CreatedAt: begun[len(begun)-1]})
	}
	if err != nil {
		return fmt.Errorf("drop the key's oldest sessions: %w", err)
	}
	return nil
}

// Session returns a session that has not expired.
func (l *Ledger) Session(ctx context.Context, idHash [32]byte) (budget.Session, error) {
	return view(ctx, l, "read the session", func(q queries) (budget.Session, error) {
		now, err := l.clock(ctx, q)
		if err != nil {
			return budget.Session{}, err
		}
		row, err := q.GetSession(ctx, sqlitequery.GetSessionParams{IDHash: idHash[:], Now: micros(now)})
		if err != nil {
			return budget.Session{}, found(err)
		}
		return budget.Session{IDHash: idHash, KeyID: row.KeyID, CSRFToken: row.CsrfToken, CreatedAt: moment(row.CreatedAt), ExpiresAt: moment(row.ExpiresAt)}, nil
	})
}

// DeleteSession signs out; an unknown session is no error.
func (l *Ledger) DeleteSession(ctx context.Context, idHash [32]byte) error {
	return l.touch(ctx, "delete the session", func(ctx context.Context, t *transaction) error {
		_, err := t.q.DeleteSession(ctx, idHash[:])
		return err
	})
}
