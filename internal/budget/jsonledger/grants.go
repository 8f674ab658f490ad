package jsonledger

import (
	"context"
	"slices"
	"time"

	"modeldock.io/internal/budget"
)

// Grants lists all grants.
func (l *Ledger) Grants(ctx context.Context) (out []budget.Grant, err error) {
	err = l.view(ctx, func(s *state) error {
		out = slices.Clone(s.Grants)
		slices.SortFunc(out, byNames)
		return nil
	})
	return out, err
}

// EndedGrants lists those that ended.
func (l *Ledger) EndedGrants(ctx context.Context) (out []budget.EndedGrant, err error) {
	err = l.view(ctx, func(s *state) error {
		out = slices.Clone(s.EndedGrants)
		slices.SortFunc(out, func(a, b budget.EndedGrant) int { return byNames(a.Grant, b.Grant) })
		return nil
	})
	return out, err
}

func byNames(a, b budget.Grant) int {
	return slices.Compare([]string{a.Owner, a.Model, a.Grantee}, []string{b.Owner, b.Model, b.Grantee})
}

// PutGrant permits a tenant to call another's model; repeating it changes nothing.
func (l *Ledger) PutGrant(ctx context.Context, g budget.Grant, anew bool) (changed bool, err error) {
	if err := g.Validate(); err != nil {
		return false, err
	}
	err = l.update(ctx, func(s *state) error {
		if slices.ContainsFunc(s.Grants, func(o budget.Grant) bool { return byNames(o, g) == 0 }) {
			return nil
		}
		if i := s.ended(g); i >= 0 {
			if old := s.EndedGrants[i]; old.Declined && !anew {
				return &budget.DeclinedError{Grant: g, At: old.EndedAt}
			}
			s.EndedGrants = slices.Delete(s.EndedGrants, i, i+1)
		}
		if g.At.IsZero() {
			g.At = l.now()
		}
		g.At = g.At.UTC().Truncate(time.Microsecond)
		s.Grants = append(s.Grants, g)
		s.changed("ledger", budget.Ref{Tenant: g.Owner}, 0)
		changed = true
		return nil
	})
	return changed && err == nil, err
}

// ended is where one stands among those that ended; -1: nowhere.
func (s *state) ended(g budget.Grant) int {
	return slices.IndexFunc(s.EndedGrants, func(o budget.EndedGrant) bool { return byNames(o.Grant, g) == 0 })
}

// DeleteGrant ends a grant; one that is not there is no error.
func (l *Ledger) DeleteGrant(ctx context.Context, owner, model, grantee string, declined bool) (changed bool, err error) {
	g := budget.Grant{Owner: owner, Model: model, Grantee: grantee}
	err = l.update(ctx, func(s *state) error {
		i := slices.IndexFunc(s.Grants, func(o budget.Grant) bool { return byNames(o, g) == 0 })
		switch ended := s.ended(g); {
		case i >= 0:
			s.EndedGrants = append(s.EndedGrants, budget.EndedGrant{Grant: s.Grants[i], EndedAt: l.now(), Declined: declined})
			s.Grants = slices.Delete(s.Grants, i, i+1)
			s.dropOldestEnded(owner)
		case ended >= 0 && declined && !s.EndedGrants[ended].Declined:
			s.EndedGrants[ended].EndedAt, s.EndedGrants[ended].Declined = l.now(), true
		default:
			return nil
		}
		s.changed("ledger", budget.Ref{Tenant: owner}, 0)
		changed = true
		return nil
	})
	return changed && err == nil, err
}

// dropOldestEnded forgets what an owner took back beyond what is remembered.
func (s *state) dropOldestEnded(owner string) {
	takenBack := func(g budget.EndedGrant) bool { return g.Owner == owner && !g.Declined }
	var ended []time.Time
	for _, g := range s.EndedGrants {
		if takenBack(g) {
			ended = append(ended, g.EndedAt)
		}
	}
	if len(ended) <= budget.MaxEndedGrants {
		return
	}
	slices.SortFunc(ended, func(a, b time.Time) int { return b.Compare(a) })
	until := ended[budget.MaxEndedGrants]
	s.EndedGrants = slices.DeleteFunc(s.EndedGrants, func(g budget.EndedGrant) bool { return takenBack(g) && !g.EndedAt.After(until) })
}

// OwnedNames returns every model name that a tenant ever submitted.
func (l *Ledger) OwnedNames(ctx context.Context) (map[string][]string, error) {
	out := map[string][]string{}
	err := l.view(ctx, func(s *state) error {
		for _, r := range s.Reservations {
			if !slices.Contains(out[r.Tenant], r.Model.Name) {
				out[r.Tenant] = append(out[r.Tenant], r.Model.Name)
			}
		}
		return nil
	})
	for _, names := range out {
		slices.Sort(names)
	}
	return out, err
}
