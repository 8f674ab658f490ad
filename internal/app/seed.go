package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"modeldock.io/internal/api"
	"modeldock.io/internal/budget"
)

// The demonstration that an empty data directory starts with.
const (
	demoPoolCap   = 8
	demoTenantCap = 2
	// slotsPerCard sizes the default pool without a demonstration.
	slotsPerCard = 4
)

func demoTenants() []string { return []string{"team-a", "team-b"} }

// seed prepares an empty ledger (pool, demonstration tenants) and mints the
// first keys. It is safe to repeat after a crash at any point.
func seed(ctx context.Context, ledger budget.Ledger, dir *dataDir, opts UpOptions, cards int, now time.Time) error {
	pools, err := ledger.Pools(ctx)
	if err != nil {
		return fmt.Errorf("read the pools: %w", err)
	}
	tenants := demoTenants()
	if opts.NoDemo {
		tenants = nil
	}
	if len(pools) == 0 {
		if err := dir.keepOldKeys(now); err != nil {
			return err
		}
		if err := seedQuotas(ctx, ledger, tenants, opts, cards); err != nil {
			return err
		}
	} else if dir.hasKeys() {
		known, err := keysFit(ctx, ledger, dir)
		if err != nil || known {
			return err
		}
		// They are another ledger's, from a start on another database.
		if err := dir.keepOldKeys(now); err != nil {
			return err
		}
	}
	return seedKeys(ctx, ledger, dir, tenants, now)
}

// keysFit reports whether the admin's key in keys.json is one of the ledger's.
// A file that a person changed so that it has none is left alone.
func keysFit(ctx context.Context, ledger budget.Ledger, dir *dataDir) (bool, error) {
	raw, err := os.ReadFile(dir.file(keysFile))
	if err != nil {
		return false, fmt.Errorf("read the first keys: %w", err)
	}
	var keys map[string]string
	if json.Unmarshal(raw, &keys) != nil {
		return true, nil //nolint:nilerr // a person's own file is no failure
	}
	id, _, ok := budget.ParseKey(keys["admin"])
	if !ok {
		return true, nil
	}
	_, err = ledger.Key(ctx, id)
	if errors.Is(err, budget.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// seedQuotas writes the pool last: it marks the ledger as prepared.
func seedQuotas(ctx context.Context, ledger budget.Ledger, tenants []string, opts UpOptions, cards int) error {
	for _, t := range tenants {
		if _, err := ledger.SetQuota(ctx, t, demoTenantCap); err != nil {
			return fmt.Errorf("set the quota of %s: %w", t, err)
		}
		if opts.onLoopback() {
			// The entry counts only while the listener is there.
			if _, err := ledger.SetEngines(ctx, t, []string{api.AllowOnLoopback}); err != nil {
				return fmt.Errorf("allow engines to %s: %w", t, err)
			}
		}
	}
	limit := int64(demoPoolCap)
	if opts.NoDemo {
		limit = int64(cards * slotsPerCard)
	}
	if _, err := ledger.SetPool(ctx, budget.DefaultPool, limit); err != nil {
		return fmt.Errorf("set the pool's cap: %w", err)
	}
	return nil
}

// seedKeys mints the admin's key and one per demonstration tenant that exists.
func seedKeys(ctx context.Context, ledger budget.Ledger, dir *dataDir, tenants []string, now time.Time) error {
	text, key := budget.MintKey(budget.RoleAdmin, "", now, 0)
	keys := map[string]string{"admin": text}
	minted := []budget.APIKey{key}
	for _, t := range tenants {
		_, err := ledger.Tenant(ctx, t)
		if errors.Is(err, budget.ErrNotFound) {
			continue // the demonstration tenants were removed or never made
		}
		if err != nil {
			return fmt.Errorf("read tenant %s: %w", t, err)
		}
		text, key := budget.MintKey(budget.RoleTenant, t, now, 0)
		keys[t] = text
		minted = append(minted, key)
	}
	for _, k := range minted {
		if err := ledger.CreateKey(ctx, k); err != nil {
			return fmt.Errorf("store the first keys: %w", err)
		}
	}
	return dir.writeKeys(keys)
}
