package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// grouped are the labels by which a query sums up, or that its legend shows.
var grouped = regexp.MustCompile(`by \(([^)]*)\)|\{\{(\w+)\}\}`)

// unlabelled are the labels of a query that its metrics do not have. Those that
// a scrape adds, and an agent's node, stand on all of them.
func unlabelled(query, legend string, labels map[string]string) (missing []string) {
	have := "instance, job, le, node"
	for _, name := range ownName.FindAllString(query, -1) {
		for _, part := range []string{"", "_bucket", "_sum", "_count"} {
			have += ", " + labels[strings.TrimSuffix(name, part)]
		}
	}
	for _, m := range grouped.FindAllStringSubmatch(query+legend, -1) {
		for _, label := range strings.Split(m[1]+m[2], ", ") {
			if !slices.Contains(strings.Split(have, ", "), label) {
				missing = append(missing, label)
			}
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
	if err != nil || len(pages) < 18 {
		t.Fatalf("%d runbooks, %v", len(pages), err)
	}
	for _, page := range pages {
		if !runbooks[filepath.Base(page)] {
			t.Errorf("no alert leads to the runbook %s", page)
		}
	}
}

// ruleTests is promtool's file of tests as far as it is looked at.
type ruleTests struct {
	Tests []struct {
		Name        string
		InputSeries []struct{ Series, Values string } `json:"input_series"`
		Checks      []struct {
			Expr    string
			Samples []struct{ Value float64 } `json:"exp_samples"`
		} `json:"promql_expr_test"`
	}
}

// untested names what is missing of the two tests that each alert has: one in
// which it fires, and one in which it stays silent although what it looks at is
// there.
func untested(r rules, tests ruleTests) (missing []string) {
	for _, g := range r.Groups {
		for _, rule := range g.Rules {
			for name, fires := range map[string]bool{rule.Alert + " fires": true, rule.Alert + " is silent": false} {
				if !testedAs(tests, name, rule.Alert, rule.Expr, fires) {
					missing = append(missing, name)
				}
			}
		}
	}
	slices.Sort(missing)
	return missing
}

func testedAs(tests ruleTests, name, alert, expr string, fires bool) bool {
	for _, test := range tests.Tests {
		if test.Name != name || len(test.Checks) == 0 {
			continue
		}
		series := ""
		for _, s := range test.InputSeries {
			series += s.Series + "\n"
		}
		for _, metric := range queried.FindAllString(expr, -1) {
			if !strings.Contains(series, metric+"{") {
				return false
			}
		}
		for _, c := range test.Checks {
			right := strings.Contains(c.Expr, `alertname="`+alert+`"`) && strings.Contains(c.Expr, `alertstate="firing"`)
			if !right || (len(c.Samples) == 1 && c.Samples[0].Value >= 1) != fires || !fires && len(c.Samples) > 0 {
				return false
			}
		}
		return true
	}
	return false
}

// queried are the metrics of an alert's expression.
var queried = regexp.MustCompile(`modeldock_[a-z0-9_]+|\bup\b`)

// Every alert has a test in which it fires and one in which it does not;
// promtool runs them (test/cluster/monitoring).
func TestEveryAlertFiresAndStaysSilent(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(monitoringFolder, "alerts_test.yaml"))
	var tests ruleTests
	if err == nil {
		err = yaml.Unmarshal(text, &tests)
	}
	if err != nil {
		t.Fatal(err)
	}
	all := readRules(t)
	for _, name := range untested(all, tests) {
		t.Errorf("alerts_test.yaml has no right test %q", name)
	}
	tests.Tests = tests.Tests[1:]
	if len(untested(all, tests)) != 1 {
		t.Error("a test that is taken out is not missed")
	}
}

func TestDashboardsAskForMetricsThatExist(t *testing.T) {
	t.Parallel()
	names := known(t)
	labels := map[string]string{}
	for _, d := range ownMetrics(t) {
		labels[d.name] = d.labels
	}
	if got := unlabelled("sum by (colour, pool) (modeldock_ledger_pool_used_slots)", "{{pool}} {{size}}", labels); len(got) != 2 {
		t.Fatalf("labels that do not exist are found as %q", got)
	}
	files, err := filepath.Glob(monitoringFolder + "/dashboards/*.json")
	if err != nil || len(files) < 5 {
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
				Targets []struct{ Expr, RefID, LegendFormat string }
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
				if missing := unlabelled(target.Expr, target.LegendFormat, labels); len(missing) > 0 {
					t.Errorf("%s, panel %q: %s has no labels %q", file, p.Title, target.Expr, missing)
				}
			}
		}
	}
}
