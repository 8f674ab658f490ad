//go:build cluster

package monitoring

import (
	"os/exec"
	"testing"

	"modeldock.io/test/cluster/binaries"
)

const folder = "../../../deploy/monitoring"

// The rules can be read; each fires when it should, and none does while all is
// well.
func TestAlertsFireWhenTheyShould(t *testing.T) {
	t.Parallel()
	cache, err := binaries.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	found, err := binaries.Find(t.Context(), cache, "promtool")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"check", "rules", "--lint-fatal", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		cmd := exec.CommandContext(t.Context(), found["promtool"], args...)
		cmd.Dir = folder
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
