package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whoever started once on another store and comes back is not locked out: the
// keys of the other one are kept aside, and new ones fit.
func TestKeysOfAnotherLedgerAreReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := func(store string) *running {
		return up(t, func(o *UpOptions) { o.DataDir, o.Store = dir, store })
	}
	first := start(storeSQLite)
	first.stop()
	if err := first.ended(); err != nil {
		t.Fatal(err)
	}
	other := start("json:" + filepath.Join(dir, "other.json"))
	other.stop()
	if err := other.ended(); err != nil {
		t.Fatal(err)
	}
	back := start(storeSQLite)
	if status, _, body := back.ask("admin", "GET", "/pools", ""); status != 200 {
		t.Errorf("keys.json does not fit the ledger: %d %s", status, body)
	}
	kept, err := filepath.Glob(filepath.Join(dir, "keys-until-*.json"))
	if err != nil || len(kept) == 0 {
		t.Errorf("kept aside: %v, %v", kept, err)
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "keys.json")); err != nil || !strings.Contains(string(raw), "team-a") {
		t.Errorf("keys.json: %s, %v", raw, err)
	}
}
