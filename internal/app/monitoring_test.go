package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const monitoringFolder = "../../deploy/monitoring"

// rules is the file of alerts as far as it is looked at.
type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr         string
			Labels, Annotations map[string]string
		}
	}
}

func readRules(t *testing.T) (r rules) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(monitoringFolder, "alerts.yaml"))
	if err == nil {
		err = yaml.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// known are the names that queries may have.
func known(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, d := range ownMetrics(t) {
		names[d.name] = true
		if d.kind() == "histogram" {
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				names[d.name+part] = true
			}
		}
	}
	return names
}

var ownName = regexp.MustCompile(`modeldock_[a-z0-9_]+`)

// unknown are the metrics of ours in a query that do not exist.
func unknown(query string, names map[string]bool) (missing []string) {
	for _, name := range ownName.FindAllString(query, -1) {
		if !names[name] {
			missing = append(missing, name)
		}
	}
	return missing
}

func TestAlertsAskForMetricsThatExistAndHaveRunbooks(t *testing.T) {
	t.Parallel()
	names := known(t)
	if len(unknown(`rate(modeldock_gateway_nothing_total[5m])`, names)) != 1 {
		t.Fatal("a metric that does not exist is not found")
	}
	runbooks := map[string]bool{}
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			if missing := unknown(r.Expr, names); len(missing) > 0 {
				t.Errorf("alert %s asks for %q, which no process exports", r.Alert, missing)
			}
			page := filepath.Base(r.Annotations["runbook_url"])
			runbooks[page] = true
			text, err := os.ReadFile(filepath.Join("../../docs/runbooks", page))
			if err != nil || !strings.HasPrefix(string(text), "# "+r.Alert+"\n") || !strings.Contains(string(text), "\n1. ") {
				t.Errorf("alert %s has no runbook %q with its name and a first step (%v)", r.Alert, page, err)
			}
			if r.Annotations["summary"] == "" || r.Labels["severity"] == "" {
				t.Errorf("alert %s has no summary or no severity", r.Alert)
			}
		}
	}
	pages, err := filepath.Glob("../../docs/runbooks/*.md")
	if err != nil || len(pages) < 8 {
		t.Fatalf("%d runbooks, %v", len(pages), err)
	}
	for _, page := range pages {
		if !runbooks[filepath.Base(page)] {
			t.Errorf("no alert leads to the runbook %s", page)
		}
	}
}

func TestDashboardsAskForMetricsThatExist(t *testing.T) {
	t.Parallel()
	names := known(t)
	files, err := filepath.Glob(monitoringFolder + "/dashboards/*.json")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d dashboards, %v", len(files), err)
	}
	ids := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d struct {
			UID, Title    string
			SchemaVersion int
			Panels        []struct {
				ID      int
				Title   string
				Type    string
				GridPos struct{ H, W, X, Y int }
				Targets []struct{ Expr, RefID string }
			}
		}
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if d.UID == "" || ids[d.UID] || d.Title == "" || d.SchemaVersion < 36 || len(d.Panels) == 0 {
			t.Errorf("%s: uid %q, title %q, schema %d, %d panels", file, d.UID, d.Title, d.SchemaVersion, len(d.Panels))
		}
		ids[d.UID] = true
		panels := map[int]bool{}
		for _, p := range d.Panels {
			if panels[p.ID] || p.Title == "" || p.Type == "" || p.GridPos.W == 0 || p.GridPos.X+p.GridPos.W > 24 || len(p.Targets) == 0 {
				t.Errorf("%s: panel %d %q is incomplete", file, p.ID, p.Title)
			}
			panels[p.ID] = true
			for _, target := range p.Targets {
				if missing := unknown(target.Expr, names); len(missing) > 0 || !ownName.MatchString(target.Expr) {
					t.Errorf("%s, panel %q: %s asks for %q, which no process exports", file, p.Title, target.Expr, missing)
				}
			}
		}
	}
}
