package app

import (
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes/fake"

	"modeldock.io/internal/traffic/gateway"
)

func keeper(c *fake.Clientset) *configMapStamps {
	return &configMapStamps{client: c, namespace: "system", kept: map[string]int64{}}
}

// calls are the verbs that the API server was asked for since the last time.
func calls(c *fake.Clientset) string {
	var verbs []string
	for _, a := range c.Actions() {
		verbs = append(verbs, a.GetVerb())
	}
	c.ClearActions()
	return strings.Join(verbs, " ")
}

// What is kept already costs no request, and a number never falls.
func TestConfigMapStamps(t *testing.T) {
	t.Parallel()
	c := fake.NewClientset()
	one, other := keeper(c), keeper(c)
	for _, step := range []struct {
		by   *configMapStamps
		seq  int64
		want string
	}{
		{one, 5, "get create"}, {one, 5, ""}, {one, 4, ""}, {one, 7, "get update"},
		{other, 6, "get"}, {other, 6, ""}, {other, 9, "get update"}, {one, 8, "get"},
	} {
		if err := step.by.raise(t.Context(), "ledger", step.seq); err != nil {
			t.Fatal(err)
		}
		if got := calls(c); got != step.want {
			t.Errorf("to raise to %d took %q, want %q", step.seq, got, step.want)
		}
	}
	if seq, err := keeper(c).read(t.Context(), "ledger"); err != nil || seq != 9 {
		t.Errorf("kept %d, %v", seq, err)
	}
}

// Those who raise together share one request.
func TestConfigMapStampsTogether(t *testing.T) {
	t.Parallel()
	c := fake.NewClientset()
	s := keeper(c)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if err := s.raise(t.Context(), "ledger", 20); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := calls(c); got != "get create" {
		t.Errorf("sixteen at once took %q", got)
	}
}

// A process that starts again on its address has its old name in the Lease.
func TestHolder(t *testing.T) {
	t.Parallel()
	at := func(port int) string { return holder(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}) }
	before, after, other := at(8081), at(8081), at(8082)
	if before != after || before == other || !strings.Contains(before, "127.0.0.1:8081") {
		t.Errorf("names: %s, %s, %s", before, after, other)
	}
}

// Two registries that both show the process's memory could not be served.
func TestOperatorMetricsJoinTheOthers(t *testing.T) {
	t.Parallel()
	c := newControl(t.Output())
	c.ledger = openLedger(t, t.TempDir())
	if err := c.registerMetrics(gateway.ConnectionBounds{Most: 1}); err != nil {
		t.Fatal(err)
	}
	families, err := prometheus.Gatherers{c.registry, prometheus.GathererFunc(operatorMetrics)}.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, f := range families {
		found[f.GetName()] = true
	}
	if !found["go_goroutines"] || !found["modeldock_delivery_reconciliations_total"] {
		t.Errorf("families: %v", found)
	}
}
