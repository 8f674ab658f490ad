package app

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"modeldock.io/internal/delivery/local"

	"modeldock.io/internal/traffic/gateway"
)

// referenceFile is made from the code: MODELDOCK_WRITE_DOCS=1 go test
// -run MetricsReference ./internal/app
const referenceFile = "../../docs/metrics.md"

// described is one metric as its process registers it.
type described struct {
	name, help, labels, process string
}

// descText is how a description prints itself; there is no other way to read it.
var descText = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: "((?:[^"\\]|\\.)*)", unit: "[^"]*", constLabels: \{[^}]*\}, variableLabels: \{([^}]*)\}\}$`)

// describe lists our own metrics of a registry.
func describe(t *testing.T, process string, from *prometheus.Registry) (all []described) {
	t.Helper()
	descs := make(chan *prometheus.Desc)
	go func() { defer close(descs); from.Describe(descs) }()
	for d := range descs {
		m := descText.FindStringSubmatch(d.String())
		if m == nil {
			t.Errorf("this description cannot be read: %s", d)
			continue
		}
		if strings.HasPrefix(m[1], "modeldock_") {
			all = append(all, described{m[1], m[2], strings.ReplaceAll(m[3], ",", ", "), process})
		}
	}
	return all
}

// ownMetrics are those of every kind of process, from what registers them.
func ownMetrics(t *testing.T) []described {
	t.Helper()
	c := newControl(io.Discard)
	if err := c.registerMetrics(gateway.ConnectionBounds{Most: 1}); err != nil {
		t.Fatal(err)
	}
	g := &gatewayProcess{opts: DefaultGatewayOptions(), log: slog.New(slog.DiscardHandler), registry: prometheus.NewRegistry(), health: newHealth(time.Now)}
	g.opts.Control, g.opts.Token, g.opts.StateDir = []string{"http://127.0.0.1:1"}, strings.Repeat("t", 40), t.TempDir()
	g.opts.Counts.RedisURL = "redis://127.0.0.1:1/0" // nobody is there; its metrics are described all the same
	if err := g.build(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.counts.close() })
	cards := prometheus.NewRegistry()
	if _, err := newClusterCards(&rest.Config{Host: "http://127.0.0.1:1"}, GPUOptions{Deliver: deliverDRA, RedisURL: g.opts.Counts.RedisURL}, time.Now, g.log, cards); err != nil {
		t.Fatal(err)
	}
	up := prometheus.NewRegistry()
	if err := up.Register(local.NewMetrics()); err != nil {
		t.Fatal(err)
	}
	all := merged(describe(t, "controller, up", c.registry), describe(t, "up", up), describe(t, "gateway, up", g.registry), describe(t, "controller, scheduler", cards),
		agentMetrics(t, deliverDevicePlugin), agentMetrics(t, deliverDRA), schedulerMetrics(t))
	slices.SortFunc(all, func(a, b described) int { return strings.Compare(a.name, b.name) })
	return all
}

// agentMetrics are those of an agent that hands out cards in one way.
func agentMetrics(t *testing.T, deliver string) []described {
	t.Helper()
	a := &agentProcess{opts: DefaultAgentOptions(), log: slog.New(slog.DiscardHandler), registry: prometheus.NewRegistry(), close: func() error { return nil }}
	a.opts.Kubeconfig, a.opts.KubeletDir, a.opts.Deliver, a.opts.CDIDir = nowhere(t), t.TempDir(), deliver, t.TempDir()
	if err := a.build(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.close() })
	return describe(t, "agent", a.registry)
}

// schedulerFile is of another module, which cannot be imported here: what it
// describes is read from its text.
const schedulerFile = "../../scheduler/gpumemory/metrics.go"

var schedulerDesc = regexp.MustCompile(`desc\("(\w+)", "([^"]+)"((?:, "\w+")*)\)`)

func schedulerMetrics(t *testing.T) (all []described) {
	t.Helper()
	text, err := os.ReadFile(schedulerFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range schedulerDesc.FindAllStringSubmatch(string(text), -1) {
		all = append(all, described{"modeldock_gpu_memory_" + m[1], m[2], strings.ReplaceAll(strings.TrimPrefix(m[3], ", "), `"`, ""), "scheduler"})
	}
	if len(all) != strings.Count(string(text), "desc(\"") || len(all) < 6 || !strings.Contains(string(text), `"modeldock_gpu_memory_"+name`) {
		t.Fatalf("%d metrics were found in %s", len(all), schedulerFile)
	}
	return all
}

// merged are all of them by name; what several kinds of processes have stands
// once.
func merged(lists ...[]described) (all []described) {
	for _, d := range slices.Concat(lists...) {
		at := slices.IndexFunc(all, func(have described) bool { return have.name == d.name })
		if at < 0 {
			all = append(all, d)
			continue
		}
		names := append(strings.Split(all[at].process, ", "), strings.Split(d.process, ", ")...)
		slices.Sort(names)
		all[at].process = strings.Join(slices.Compact(names), ", ")
	}
	return all
}

// kind is told by the name: a test below compares it with what is exported.
func (d described) kind() string {
	switch {
	case strings.HasSuffix(d.name, "_total"):
		return "counter"
	case slices.ContainsFunc([]string{"first_byte", "first_chunk", "inter_chunk", "queued"}, func(what string) bool { return strings.HasSuffix(d.name, what+"_seconds") }):
		return "histogram"
	}
	return "gauge"
}

func reference(all []described) string {
	var b strings.Builder
	b.WriteString("# Metrics\n\n<!-- Made from the code by `make metrics`; a test compares them. -->\n\n" +
		"Every process also exports Go's and the process's own metrics (`go_…`, `process_…`), and a controller those of the operator's library (`controller_runtime_…`, `workqueue_…`, `rest_client_…`, `leader_election_…`). " +
		"Labels are bounded: beyond a hundred tenants or pools the rest is summed as `_other`.\n\n" +
		"They are served on `--ops-listen` and, where `up` or `controller` has none, to callers on the same machine on the main listener.\n\n" +
		"`modeldock-scheduler` has what every kube-scheduler has beside its own.\n\n" +
		"| metric | kind | labels | process | meaning |\n|---|---|---|---|---|\n")
	for _, d := range all {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", d.name, d.kind(), d.labels, d.process, d.help)
	}
	b.WriteString("\nAlert rules and dashboards are in `deploy/monitoring`; each alert has a page in `docs/runbooks`.\n")
	return b.String()
}

func TestMetricsReferenceIsTrue(t *testing.T) {
	t.Parallel()
	all := ownMetrics(t)
	if len(all) < 20 {
		t.Fatalf("only %d metrics are described", len(all))
	}
	for _, d := range all {
		if d.help == "" {
			t.Errorf("%s does not say what it means", d.name)
		}
	}
	want := reference(all)
	if os.Getenv("MODELDOCK_WRITE_DOCS") != "" {
		if err := os.WriteFile(referenceFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(referenceFile)
	if err != nil || string(have) != want {
		t.Errorf("docs/metrics.md is not what the code says (%v): run make metrics. It should be:\n%s", err, want)
	}
}

// What a running platform exports is in the reference, with its kind.
func TestExportedMetricsAreInTheReference(t *testing.T) {
	t.Parallel()
	kinds := map[string]string{}
	for _, d := range ownMetrics(t) {
		kinds[d.name] = d.kind()
	}
	r := up(t, nil)
	r.ask("team-a", "POST", "/requests", `{"id":"one","cost":1,"priority":1}`)
	r.eventually("team-a", "/requests/one", `"readyReplicas":1`)
	if status, _, text := r.ask("team-a", "POST", "/v1/chat/completions", `{"model":"one","stream":true,"messages":[{"role":"user","content":"x"}]}`); status != 200 {
		t.Fatalf("the call answered %d: %s", status, text)
	}
	_, _, text := r.ask("", "GET", "/metrics", "")
	seen := 0
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (modeldock_\S+) (\S+)$`).FindAllStringSubmatch(text, -1) {
		seen++
		if kinds[m[1]] != m[2] {
			t.Errorf("%s is exported as %s; the reference says %q", m[1], m[2], kinds[m[1]])
		}
	}
	if seen < 15 || !strings.Contains(text, "modeldock_gateway_first_chunk_seconds_bucket") {
		t.Errorf("only %d metrics are exported:\n%s", seen, text)
	}
}
