//go:build cluster

package monitoring

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	for _, args := range [][]string{{"check", "rules", "--lint-fatal", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}, {"check", "rules", asRules(t)}} {
		cmd := exec.CommandContext(t.Context(), found["promtool"], args...)
		cmd.Dir = folder
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// asRules writes the queries of all dashboards as recording rules, so that
// promtool reads each of them.
func asRules(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(folder + "/dashboards/*.json")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d dashboards, %v", len(files), err)
	}
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var rules []rule
	for _, file := range files {
		text, err := os.ReadFile(file)
		var dashboard struct {
			Panels []struct{ Targets []struct{ Expr string } }
		}
		if err == nil {
			err = json.Unmarshal(text, &dashboard)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range dashboard.Panels {
			for _, target := range p.Targets {
				rules = append(rules, rule{fmt.Sprintf("query:%d", len(rules)), target.Expr})
			}
		}
	}
	text, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboards", "rules": rules}}}) // which is YAML as well
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}
