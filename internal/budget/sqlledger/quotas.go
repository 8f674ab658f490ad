package sqlledger

import (
	"context"
	"encoding/json"
	"fmt"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger/sqlitequery"
	"modeldock.io/internal/modelspec"
)

// Tenants lists all tenants by name.
func (l *Ledger) Tenants(ctx context.Context) ([]budget.Tenant, error) {
	return single(ctx, l, "list the tenants", func(q queries) ([]budget.Tenant, error) {
		rows, err := q.ListTenants(ctx)
		if err != nil {
			return nil, err
		}
		return tenants(rows)
	})
}

// Tenant returns one tenant.
func (l *Ledger) Tenant(ctx context.Context, name string) (budget.Tenant, error) {
	return single(ctx, l, "read the tenant", func(q queries) (budget.Tenant, error) {
		row, err := q.GetTenant(ctx, name)
		if err != nil {
			return budget.Tenant{}, found(err)
		}
		return tenant(row)
	})
}

// Counts returns how many rows a tenant has.
func (l *Ledger) Counts(ctx context.Context, tenant string) (budget.Counts, error) {
	return view(ctx, l, "count the tenant's rows", func(q queries) (n budget.Counts, err error) {
		for _, count := range []struct {
			into *int64
			ask  func(context.Context, string) (int64, error)
		}{{&n.Waiting, q.CountWaiting}, {&n.Requests, q.CountRequests}, {&n.Grants, func(ctx context.Context, owner string) (int64, error) { return countGrants(ctx, q, owner) }}} {
			if *count.into, err = count.ask(ctx, tenant); err != nil {
				return n, err
			}
		}
		return n, nil
	})
}

// SetQuota sets a tenant's cap and creates the tenant if it is new.
func (l *Ledger) SetQuota(ctx context.Context, name string, limit int64) (budget.Tenant, error) {
	if err := budget.CheckCap("tenant", name, limit); err != nil {
		return budget.Tenant{}, err
	}
	return l.setTenant(ctx, name, "quota", func(ctx context.Context, t *transaction) (sqlitequery.TenantQuotum, error) {
		return t.q.SetQuota(ctx, sqlitequery.SetQuotaParams{Tenant: name, Cap: limit})
	})
}

// SetEngines sets the engines and source prefixes that a tenant may use.
func (l *Ledger) SetEngines(ctx context.Context, name string, allow []string) (budget.Tenant, error) {
	list, err := allowList(name, "engines", allow)
	if err != nil {
		return budget.Tenant{}, err
	}
	return l.setTenant(ctx, name, "ledger", func(ctx context.Context, t *transaction) (sqlitequery.TenantQuotum, error) {
		return t.q.SetEngines(ctx, sqlitequery.SetEnginesParams{Tenant: name, Engines: list})
	})
}

// SetPools sets the pools beside "default" that a tenant may use.
func (l *Ledger) SetPools(ctx context.Context, name string, allow []string) (budget.Tenant, error) {
	list, err := allowList(name, "pools", allow)
	if err != nil {
		return budget.Tenant{}, err
	}
	return l.setTenant(ctx, name, "ledger", func(ctx context.Context, t *transaction) (sqlitequery.TenantQuotum, error) {
		return t.q.SetPools(ctx, sqlitequery.SetPoolsParams{Tenant: name, Pools: list})
	})
}

// SetLimits replaces a tenant's limits.
func (l *Ledger) SetLimits(ctx context.Context, name string, limits budget.Limits) (budget.Tenant, error) {
	if err := budget.CheckLimits(name, limits); err != nil {
		return budget.Tenant{}, err
	}
	text, err := limitsText(name, limits)
	if err != nil {
		return budget.Tenant{}, err
	}
	return l.setTenant(ctx, name, "ledger", func(ctx context.Context, t *transaction) (sqlitequery.TenantQuotum, error) {
		return t.q.SetLimits(ctx, sqlitequery.SetLimitsParams{Tenant: name, Limits: text})
	})
}

func limitsText(name string, limits budget.Limits) (string, error) {
	text, err := json.Marshal(limits)
	if err != nil {
		return "", fmt.Errorf("encode the limits of tenant %s: %w", name, err)
	}
	return string(text), nil
}

func (l *Ledger) setTenant(ctx context.Context, name, topic string, set func(context.Context, *transaction) (sqlitequery.TenantQuotum, error)) (budget.Tenant, error) {
	return change(ctx, l, "set what tenant "+name+" may use", func(ctx context.Context, t *transaction) (budget.Tenant, error) {
		row, err := set(ctx, t)
		if err != nil {
			return budget.Tenant{}, err
		}
		t.changed(topic, budget.Ref{Tenant: name}, 0)
		return tenant(row)
	})
}

func allowList(name, what string, allow []string) (string, error) {
	if err := budget.CheckAllow(name, what, allow); err != nil {
		return "", err
	}
	list, err := json.Marshal(append([]string{}, allow...))
	if err != nil {
		return "", fmt.Errorf("encode the %s of tenant %s: %w", what, name, err)
	}
	return string(list), nil
}

// Pools lists all pools by name.
func (l *Ledger) Pools(ctx context.Context) ([]budget.Pool, error) {
	return single(ctx, l, "list the pools", func(q queries) ([]budget.Pool, error) {
		rows, err := q.ListPools(ctx)
		if err != nil {
			return nil, err
		}
		return pools(rows)
	})
}

// SetPool sets a pool's cap and creates the pool if it is new.
func (l *Ledger) SetPool(ctx context.Context, name string, limit int64) (budget.Pool, error) {
	if err := budget.CheckCap("pool", name, limit); err != nil {
		return budget.Pool{}, err
	}
	return change(ctx, l, "set pool "+name, func(ctx context.Context, t *transaction) (budget.Pool, error) {
		row, err := t.q.SetPool(ctx, sqlitequery.SetPoolParams{Pool: name, Cap: limit})
		if err != nil {
			return budget.Pool{}, err
		}
		t.changed("quota", budget.Ref{ID: name}, 0)
		return pool(row)
	})
}

// SetWarm replaces what a pool keeps ready.
func (l *Ledger) SetWarm(ctx context.Context, name string, warm modelspec.WarmPool) (budget.Pool, error) {
	kept, err := budget.CheckWarm(name, warm)
	if err != nil {
		return budget.Pool{}, err
	}
	text, err := warmText(name, kept)
	if err != nil {
		return budget.Pool{}, err
	}
	return change(ctx, l, "set what pool "+name+" keeps ready", func(ctx context.Context, t *transaction) (budget.Pool, error) {
		row, err := t.q.GetPool(ctx, name)
		if err != nil {
			return budget.Pool{}, found(err)
		}
		if _, err := t.q.SetWarm(ctx, sqlitequery.SetWarmParams{Warm: text, Pool: name}); err != nil {
			return budget.Pool{}, err
		}
		t.changed("ledger", budget.Ref{ID: name}, 0)
		row.Warm = text
		return pool(row)
	})
}

// KeepWarmDay keeps what was counted of a pool.
func (l *Ledger) KeepWarmDay(ctx context.Context, name, day string) error {
	if err := budget.CheckWarmDay(name, day); err != nil {
		return err
	}
	return l.touch(ctx, "keep the day of pool "+name, func(ctx context.Context, t *transaction) error {
		return t.q.KeepWarmDay(ctx, sqlitequery.KeepWarmDayParams{WarmDay: day, Pool: name})
	})
}

// Usage reads the figures and the newest entries in one snapshot.
func (l *Ledger) Usage(ctx context.Context, entries int) (budget.Usage, error) {
	return view(ctx, l, "read the usage", func(q queries) (out budget.Usage, err error) {
		if out.At, err = l.clock(ctx, q); err != nil {
			return out, err
		}
		tenantRows, err := q.ListTenants(ctx)
		if err != nil {
			return out, fmt.Errorf("read the quotas: %w", err)
		}
		if out.Tenants, err = tenants(tenantRows); err != nil {
			return out, err
		}
		poolRows, err := q.ListPools(ctx)
		if err != nil {
			return out, fmt.Errorf("read the pools: %w", err)
		}
		if out.Pools, err = pools(poolRows); err != nil {
			return out, err
		}
		// One more than asked for tells whether there are older ones.
		rows, err := q.LatestJournal(ctx, int64(entries)+1)
		if err != nil {
			return out, fmt.Errorf("read the newest journal entries: %w", err)
		}
		out.Whole = len(rows) <= entries
		for _, row := range rows[:min(len(rows), entries)] {
			out.Entries = append(out.Entries, entry(row))
		}
		return out, nil
	})
}
