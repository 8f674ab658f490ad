package jsonledger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"modeldock.io/internal/budget"
)

// CreateKey stores a key; an id that exists is refused.
func (l *Ledger) CreateKey(ctx context.Context, k budget.APIKey) error {
	return l.update(ctx, func(s *state) error {
		if slices.ContainsFunc(s.Keys, func(o budget.APIKey) bool { return o.ID == k.ID }) {
			return fmt.Errorf("create key %s: it exists", k.ID)
		}
		if (k.Role == budget.RoleTenant) != (k.Tenant != "") {
			return fmt.Errorf("create key %s: a tenant's key names a tenant, any other names none", k.ID)
		}
		s.Keys = append(s.Keys, k)
		s.changed("ledger", budget.Ref{Tenant: k.Tenant, ID: k.ID}, 0)
		return nil
	})
}

// Keys lists all keys, the oldest first.
func (l *Ledger) Keys(ctx context.Context) (out []budget.APIKey, err error) {
	err = l.view(ctx, func(s *state) error {
		out = slices.Clone(s.Keys)
		slices.SortFunc(out, func(a, b budget.APIKey) int {
			if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
				return c
			}
			return strings.Compare(a.ID, b.ID)
		})
		return nil
	})
	return out, err
}

// Key returns one key, whether or not it may still be used.
func (l *Ledger) Key(ctx context.Context, id string) (out budget.APIKey, err error) {
	err = l.view(ctx, func(s *state) error {
		for _, k := range s.Keys {
			if k.ID == id {
				out = k
				return nil
			}
		}
		return budget.ErrNotFound
	})
	return out, err
}

// RevokeKey ends a key for good; its time is that of the first call.
func (l *Ledger) RevokeKey(ctx context.Context, id string) error {
	return l.update(ctx, func(s *state) error {
		for i := range s.Keys {
			if s.Keys[i].ID != id {
				continue
			}
			if s.Keys[i].RevokedAt.IsZero() {
				s.Keys[i].RevokedAt = l.now()
			}
			s.changed("ledger", budget.Ref{ID: id}, 0)
			return nil
		}
		return budget.ErrNotFound
	})
}

// TouchKeys records last uses; unknown keys are passed over.
func (l *Ledger) TouchKeys(ctx context.Context, used map[string]time.Time) error {
	return l.update(ctx, func(s *state) error {
		for i := range s.Keys {
			if at, ok := used[s.Keys[i].ID]; ok && at.After(s.Keys[i].LastUsedAt) {
				s.Keys[i].LastUsedAt = at.UTC().Truncate(time.Microsecond)
			}
		}
		return nil
	})
}

// CreateSession stores a session and drops expired ones, and the key's oldest
// beyond what one key may have, on the way.
func (l *Ledger) CreateSession(ctx context.Context, n budget.Session) error {
	return l.update(ctx, func(s *state) error {
		now := l.now()
		s.Sessions = slices.DeleteFunc(s.Sessions, func(o budget.Session) bool { return !o.ExpiresAt.After(now) })
		for _, o := range s.Sessions {
			if o.IDHash == n.IDHash {
				return fmt.Errorf("create the session: it exists")
			}
		}
		if !slices.ContainsFunc(s.Keys, func(k budget.APIKey) bool { return k.ID == n.KeyID }) {
			return fmt.Errorf("create the session: key %s does not exist", n.KeyID)
		}
		s.dropOldestSessions(n.KeyID)
		s.Sessions = append(s.Sessions, n)
		return nil
	})
}

// dropOldestSessions makes room for one more of the key's.
func (s *state) dropOldestSessions(keyID string) {
	var begun []time.Time
	for _, o := range s.Sessions {
		if o.KeyID == keyID {
			begun = append(begun, o.CreatedAt)
		}
	}
	if len(begun) < budget.MaxSessions {
		return
	}
	slices.SortFunc(begun, func(a, b time.Time) int { return b.Compare(a) })
	until := begun[budget.MaxSessions-1]
	s.Sessions = slices.DeleteFunc(s.Sessions, func(o budget.Session) bool { return o.KeyID == keyID && !o.CreatedAt.After(until) })
}

// Session returns a session that has not expired.
func (l *Ledger) Session(ctx context.Context, idHash [32]byte) (out budget.Session, err error) {
	err = l.view(ctx, func(s *state) error {
		now := l.now()
		for _, o := range s.Sessions {
			if o.IDHash == idHash && o.ExpiresAt.After(now) {
				out = o
				return nil
			}
		}
		return budget.ErrNotFound
	})
	return out, err
}

// DeleteSession signs out; an unknown session is no error.
func (l *Ledger) DeleteSession(ctx context.Context, idHash [32]byte) error {
	return l.update(ctx, func(s *state) error {
		s.Sessions = slices.DeleteFunc(s.Sessions, func(o budget.Session) bool { return o.IDHash == idHash })
		return nil
	})
}
