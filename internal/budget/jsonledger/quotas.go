package jsonledger

import (
	"context"
	"slices"
	"strings"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/modelspec"
)

// Tenants lists all tenants by name.
func (l *Ledger) Tenants(ctx context.Context) (out []budget.Tenant, err error) {
	err = l.view(ctx, func(s *state) error {
		out = slices.Clone(s.Tenants)
		slices.SortFunc(out, func(a, b budget.Tenant) int { return strings.Compare(a.Name, b.Name) })
		return nil
	})
	return out, err
}

// Tenant returns one tenant.
func (l *Ledger) Tenant(ctx context.Context, name string) (out budget.Tenant, err error) {
	err = l.view(ctx, func(s *state) error {
		t := s.tenant(name)
		if t == nil {
			return budget.ErrNotFound
		}
		out = *t
		return nil
	})
	return out, err
}

// Counts returns how many rows a tenant has.
func (l *Ledger) Counts(ctx context.Context, tenant string) (n budget.Counts, err error) {
	err = l.view(ctx, func(s *state) error {
		for _, r := range s.Reservations {
			if r.Tenant != tenant {
				continue
			}
			n.Requests++
			if r.State == budget.Waiting {
				n.Waiting++
			}
		}
		for _, g := range s.Grants {
			if g.Owner == tenant {
				n.Grants++
			}
		}
		for _, g := range s.EndedGrants {
			if g.Owner == tenant && g.Declined {
				n.Grants++
			}
		}
		return nil
	})
	return n, err
}

// SetQuota sets a tenant's cap and creates the tenant if it is new.
func (l *Ledger) SetQuota(ctx context.Context, name string, limit int64) (budget.Tenant, error) {
	if err := budget.CheckCap("tenant", name, limit); err != nil {
		return budget.Tenant{}, err
	}
	return l.setTenant(ctx, name, "quota", func(t *budget.Tenant) { t.Cap = limit })
}

// SetEngines sets the engines and source prefixes that a tenant may use.
func (l *Ledger) SetEngines(ctx context.Context, name string, allow []string) (budget.Tenant, error) {
	if err := budget.CheckAllow(name, "engines", allow); err != nil {
		return budget.Tenant{}, err
	}
	return l.setTenant(ctx, name, "ledger", func(t *budget.Tenant) { t.Engines = append([]string{}, allow...) })
}

// SetPools sets the pools beside "default" that a tenant may use.
func (l *Ledger) SetPools(ctx context.Context, name string, allow []string) (budget.Tenant, error) {
	if err := budget.CheckAllow(name, "pools", allow); err != nil {
		return budget.Tenant{}, err
	}
	return l.setTenant(ctx, name, "ledger", func(t *budget.Tenant) { t.Pools = append([]string{}, allow...) })
}

// SetLimits replaces a tenant's limits.
func (l *Ledger) SetLimits(ctx context.Context, name string, limits budget.Limits) (budget.Tenant, error) {
	if err := budget.CheckLimits(name, limits); err != nil {
		return budget.Tenant{}, err
	}
	return l.setTenant(ctx, name, "ledger", func(t *budget.Tenant) { t.Limits = limits.Clone() })
}

func (l *Ledger) setTenant(ctx context.Context, name, topic string, set func(t *budget.Tenant)) (out budget.Tenant, err error) {
	err = l.update(ctx, func(s *state) error {
		if s.tenant(name) == nil {
			s.Tenants = append(s.Tenants, budget.Tenant{Name: name, Engines: []string{}, Pools: []string{}})
		}
		set(s.tenant(name))
		out = *s.tenant(name)
		s.changed(topic, budget.Ref{Tenant: name}, 0)
		return nil
	})
	return orZero(out, err)
}

// Pools lists all pools by name.
func (l *Ledger) Pools(ctx context.Context) (out []budget.Pool, err error) {
	err = l.view(ctx, func(s *state) error {
		out = slices.Clone(s.Pools)
		slices.SortFunc(out, func(a, b budget.Pool) int { return strings.Compare(a.Name, b.Name) })
		return nil
	})
	return out, err
}

// SetPool sets a pool's cap and creates the pool if it is new.
func (l *Ledger) SetPool(ctx context.Context, name string, limit int64) (out budget.Pool, err error) {
	if err := budget.CheckCap("pool", name, limit); err != nil {
		return out, err
	}
	err = l.update(ctx, func(s *state) error {
		if s.pool(name) == nil {
			s.Pools = append(s.Pools, budget.Pool{Name: name})
		}
		s.pool(name).Cap = limit
		out = *s.pool(name)
		s.changed("quota", budget.Ref{ID: name}, 0)
		return nil
	})
	return orZero(out, err)
}

// SetWarm replaces what a pool keeps ready.
func (l *Ledger) SetWarm(ctx context.Context, name string, warm modelspec.WarmPool) (out budget.Pool, err error) {
	kept, err := budget.CheckWarm(name, warm)
	if err != nil {
		return out, err
	}
	err = l.update(ctx, func(s *state) error {
		p := s.pool(name)
		if p == nil {
			return budget.ErrNotFound
		}
		p.Warm = kept
		out = *p
		s.changed("ledger", budget.Ref{ID: name}, 0)
		return nil
	})
	return orZero(out, err)
}

// KeepWarmDay keeps what was counted of a pool.
func (l *Ledger) KeepWarmDay(ctx context.Context, name, day string) error {
	if err := budget.CheckWarmDay(name, day); err != nil {
		return err
	}
	return l.update(ctx, func(s *state) error {
		if p := s.pool(name); p != nil {
			p.WarmDay = day
		}
		return nil
	})
}

// Usage returns the figures and the newest entries.
func (l *Ledger) Usage(ctx context.Context, entries int) (budget.Usage, error) {
	var out budget.Usage
	err := l.view(ctx, func(s *state) error {
		out = budget.Usage{At: l.now(), Tenants: slices.Clone(s.Tenants), Pools: slices.Clone(s.Pools), Whole: len(s.Journal) <= entries}
		slices.SortFunc(out.Tenants, func(a, b budget.Tenant) int { return strings.Compare(a.Name, b.Name) })
		slices.SortFunc(out.Pools, func(a, b budget.Pool) int { return strings.Compare(a.Name, b.Name) })
		out.Entries = slices.Clone(s.Journal[max(0, len(s.Journal)-entries):])
		slices.Reverse(out.Entries)
		return nil
	})
	return out, err
}
