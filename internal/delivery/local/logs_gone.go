package local

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"modeldock.io/internal/fair"
)

const (
	// keepGoneLogs is how many deleted objects' logs stay readable.
	keepGoneLogs = 100
	// ownerFile in a deleted object's logs names its tenant, which the object's
	// name does not tell.
	ownerFile = "tenant"
)

// goneLogs are those of one deleted object.
type goneLogs struct {
	path   string
	tenant string // empty: from before tenants were written down; one tenant's
	at     time.Time
}

// surplusLogs picks what goes so that keep stay at most: the oldest of the
// tenants that have the most. An object just deleted is kept in any case.
func surplusLogs(gone []goneLogs, keep int) []goneLogs {
	held := map[string]int64{}
	for _, g := range gone {
		held[g.tenant]++
	}
	share := max(1, fair.EvenShare(slices.Collect(maps.Values(held)), int64(keep)))
	slices.SortFunc(gone, func(a, b goneLogs) int { return b.at.Compare(a.at) })
	kept := map[string]int64{}
	return slices.DeleteFunc(gone, func(g goneLogs) bool {
		kept[g.tenant]++
		return kept[g.tenant] <= share
	})
}

// pruneLogs notes whose the logs of an object are that is gone now, and removes
// old ones. Called under the lock.
func (t *Target) pruneLogs(removed record) {
	root := filepath.Join(t.cfg.DataDir, "logs")
	if err := os.WriteFile(filepath.Join(root, removed.Name, ownerFile), []byte(removed.ref().Tenant), 0o600); err != nil && !os.IsNotExist(err) {
		t.log.Warn("whose logs they are is not written down", "object", removed.Name, "err", err)
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return // there are none
	}
	var gone []goneLogs
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || t.objects[e.Name()] != nil {
			continue
		}
		path := filepath.Join(root, e.Name())
		tenant, _ := os.ReadFile(filepath.Join(path, ownerFile))
		gone = append(gone, goneLogs{path, string(tenant), info.ModTime()})
	}
	for _, g := range surplusLogs(gone, keepGoneLogs) {
		if err := os.RemoveAll(g.path); err != nil {
			t.log.Warn("cannot remove old logs", "err", err)
		}
	}
}
