package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
)

func openLedger(t *testing.T, dir string) *sqlledger.Ledger {
	t.Helper()
	l, err := sqlledger.OpenSQLite(t.Context(), filepath.Join(dir, "ledger.db"), sqlledger.Options{Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func openDir(t *testing.T) *dataDir {
	t.Helper()
	d, err := openDataDir(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.close)
	return d
}

// crashing ends its process, so to speak, at the n-th write.
type crashing struct {
	budget.Ledger
	left int
}

var errCrash = errors.New("crash")

func (c *crashing) write() error {
	if c.left--; c.left < 0 {
		return errCrash
	}
	return nil
}

func (c *crashing) SetQuota(ctx context.Context, tenant string, n int64) (budget.Tenant, error) {
	if err := c.write(); err != nil {
		return budget.Tenant{}, err
	}
	return c.Ledger.SetQuota(ctx, tenant, n)
}

func (c *crashing) SetEngines(ctx context.Context, tenant string, allow []string) (budget.Tenant, error) {
	if err := c.write(); err != nil {
		return budget.Tenant{}, err
	}
	return c.Ledger.SetEngines(ctx, tenant, allow)
}

func (c *crashing) SetPool(ctx context.Context, pool string, n int64) (budget.Pool, error) {
	if err := c.write(); err != nil {
		return budget.Pool{}, err
	}
	return c.Ledger.SetPool(ctx, pool, n)
}

func (c *crashing) CreateKey(ctx context.Context, k budget.APIKey) error {
	if err := c.write(); err != nil {
		return err
	}
	return c.Ledger.CreateKey(ctx, k)
}

func readKeys(t *testing.T, d *dataDir) map[string]string {
	t.Helper()
	info, err := os.Stat(d.file(keysFile))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("%s has mode %v", keysFile, info.Mode())
	}
	data, err := os.ReadFile(d.file(keysFile))
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]string
	if err := json.Unmarshal(data, &keys); err != nil {
		t.Fatal(err)
	}
	return keys
}

// opens fails unless the key is live in the ledger and of this tenant.
func opens(t *testing.T, l budget.Ledger, key, tenant string, role budget.Role) {
	t.Helper()
	id, hash, ok := budget.ParseKey(key)
	if !ok {
		t.Fatalf("no key: %q", key)
	}
	k, err := l.Key(t.Context(), id)
	if err != nil || !k.Matches(hash) || !k.Live(time.Now()) || k.Tenant != tenant || k.Role != role {
		t.Errorf("key of %q: %+v, %v", tenant, k, err)
	}
}

func checkSeeded(t *testing.T, l budget.Ledger, d *dataDir) {
	t.Helper()
	keys := readKeys(t, d)
	if len(keys) != 3 {
		t.Fatalf("keys for %d", len(keys))
	}
	opens(t, l, keys["admin"], "", budget.RoleAdmin)
	tenants, err := l.Tenants(t.Context())
	if err != nil || len(tenants) != 2 {
		t.Fatalf("tenants %v, %v", tenants, err)
	}
	for _, q := range tenants {
		opens(t, l, keys[q.Name], q.Name, budget.RoleTenant)
		if q.Cap != 2 || fmt.Sprint(q.Engines) != "[loopback:*]" {
			t.Errorf("tenant %+v", q)
		}
	}
	pools, err := l.Pools(t.Context())
	if err != nil || len(pools) != 1 || pools[0].Name != "default" || pools[0].Cap != 8 {
		t.Errorf("pools %v, %v", pools, err)
	}
}

func TestSeedAfterACrashAtEveryStep(t *testing.T) {
	t.Parallel()
	for n := range 9 { // 2 quotas, 2 lists, 1 pool, 3 keys, then none
		t.Run(fmt.Sprintf("after %d writes", n), func(t *testing.T) {
			t.Parallel()
			d := openDir(t)
			l := openLedger(t, d.path)
			err := seed(t.Context(), &crashing{l, n}, d, DefaultUpOptions(), 2, time.Now())
			if (err == nil) != (n == 8) {
				t.Fatalf("after %d writes: %v", n, err)
			}
			for range 2 { // the next start, and the one after it
				if err := seed(t.Context(), l, d, DefaultUpOptions(), 2, time.Now()); err != nil {
					t.Fatal(err)
				}
				checkSeeded(t, l, d)
			}
		})
	}
}

func TestSeedKeepsWhatWasChanged(t *testing.T) {
	t.Parallel()
	d := openDir(t)
	l := openLedger(t, d.path)
	again := func() {
		t.Helper()
		if err := seed(t.Context(), l, d, DefaultUpOptions(), 2, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	again()
	before := readKeys(t, d)
	if _, err := l.SetQuota(t.Context(), "team-a", 7); err != nil {
		t.Fatal(err)
	}
	if _, err := l.SetPool(t.Context(), "default", 3); err != nil {
		t.Fatal(err)
	}
	again()
	if after := readKeys(t, d); after["admin"] != before["admin"] || after["team-a"] != before["team-a"] {
		t.Error("a second start minted other keys")
	}
	// Lost keys are minted anew; caps stay.
	if err := os.Remove(d.file(keysFile)); err != nil {
		t.Fatal(err)
	}
	again()
	keys := readKeys(t, d)
	opens(t, l, keys["admin"], "", budget.RoleAdmin)
	opens(t, l, keys["team-a"], "team-a", budget.RoleTenant)
	if keys["admin"] == before["admin"] {
		t.Error("the ledger cannot know the old secret")
	}
	q, err := l.Tenant(t.Context(), "team-a")
	if err != nil || q.Cap != 7 {
		t.Errorf("cap %d, %v", q.Cap, err)
	}
}

func TestSeedWithoutADemonstration(t *testing.T) {
	t.Parallel()
	d := openDir(t)
	l := openLedger(t, d.path)
	o := DefaultUpOptions()
	o.NoDemo = true
	if err := seed(t.Context(), l, d, o, 3, time.Now()); err != nil {
		t.Fatal(err)
	}
	keys := readKeys(t, d)
	tenants, _ := l.Tenants(t.Context())
	pools, _ := l.Pools(t.Context())
	if len(keys) != 1 || len(tenants) != 0 || len(pools) != 1 || pools[0].Cap != 12 {
		t.Errorf("keys of %d, tenants %v, pools %v", len(keys), tenants, pools)
	}
	opens(t, l, keys["admin"], "", budget.RoleAdmin)
}

// Beyond loopback nobody may start programs before an admin allows it.
func TestSeedAllowsNoEnginesBeyondLoopback(t *testing.T) {
	t.Parallel()
	d := openDir(t)
	l := openLedger(t, d.path)
	o := DefaultUpOptions()
	o.Listen, o.Insecure = "0.0.0.0:8080", true
	if err := seed(t.Context(), l, d, o, 2, time.Now()); err != nil {
		t.Fatal(err)
	}
	if q, err := l.Tenant(t.Context(), "team-a"); err != nil || len(q.Engines) != 0 {
		t.Errorf("engines %v, %v", q.Engines, err)
	}
}

// A new ledger on a data directory with another one's keys loses nobody's keys.
func TestSeedKeepsTheKeysOfAnotherLedger(t *testing.T) {
	t.Parallel()
	d := openDir(t)
	if err := d.writeKeys(map[string]string{"admin": "of another ledger"}); err != nil {
		t.Fatal(err)
	}
	l := openLedger(t, d.path)
	if err := seed(t.Context(), l, d, DefaultUpOptions(), 2, time.Now()); err != nil {
		t.Fatal(err)
	}
	opens(t, l, readKeys(t, d)["admin"], "", budget.RoleAdmin)
	kept, err := filepath.Glob(filepath.Join(d.path, "keys-until-*.json"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept %v, %v", kept, err)
	}
}

func TestDataDirHasOneOwner(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "deep", "data")
	d, err := openDataDir(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	_, err = openDataDir(path)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("pid %d", os.Getpid())) || !strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("a second owner: %v", err)
	}
	d.close()
	again, err := openDataDir(path)
	if err != nil {
		t.Fatalf("after the first one closed: %v", err)
	}
	again.close()
}
