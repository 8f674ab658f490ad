package gpumemory

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-base/metrics/testutil"
)

// The metrics are what the API server shows, and what the scheduler alone counts.
func TestMetrics(t *testing.T) {
	t.Parallel()
	bad := node(t, "bad", 1)
	bad.Annotations["modeldock.io/cards"] = "[{}]"
	b := setup(t, node(t, "n", 10000, 10000), bad)
	core := b.handle.SharedInformerFactory().Core().V1()
	bound := on(pod("bound", "4000"), "n", "n-0")
	b.pods = []*v1.Pod{bound}
	b.server(t, false, apierrors.NewInternalError(errors.New("who knows")))
	if err := b.bind(t, pod("doubtful", "2000")); err == nil {
		t.Fatal("no error")
	}
	for _, n := range b.nodes {
		if err := core.Nodes().Informer().GetStore().Add(n); err != nil {
			t.Fatal(err)
		}
	}
	if err := core.Pods().Informer().GetStore().Add(bound); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(newCollector(b.Plugin)); err != nil {
		t.Fatal(err)
	}
	// 10000 − 3 % − 4000 = 5700 MiB on the one card, 9700 on the other, of which
	// the doubtful Pod took 2000 of the first, the tighter one.
	want := `
# HELP modeldock_gpu_memory_allocated_bytes Memory of a card that belongs to Pods.
# TYPE modeldock_gpu_memory_allocated_bytes gauge
modeldock_gpu_memory_allocated_bytes{card="n-0",node="n"} 6.291456e+09
modeldock_gpu_memory_allocated_bytes{card="n-1",node="n"} 0
# HELP modeldock_gpu_memory_bindings_in_doubt Bindings that were answered ambiguously; their cards stay counted.
# TYPE modeldock_gpu_memory_bindings_in_doubt gauge
modeldock_gpu_memory_bindings_in_doubt 1
# HELP modeldock_gpu_memory_largest_fragment_bytes The most that one Pod can get on one card of the node.
# TYPE modeldock_gpu_memory_largest_fragment_bytes gauge
modeldock_gpu_memory_largest_fragment_bytes{node="n"} 1.01711872e+10
# HELP modeldock_gpu_memory_ledger_drift_bytes Memory that the scheduler counts for Pods which the API server does not show as bound; 0 at rest.
# TYPE modeldock_gpu_memory_ledger_drift_bytes gauge
modeldock_gpu_memory_ledger_drift_bytes{node="n"} 2.097152e+09
# HELP modeldock_gpu_memory_unreadable_nodes Nodes whose cards cannot be used because their description is wrong.
# TYPE modeldock_gpu_memory_unreadable_nodes gauge
modeldock_gpu_memory_unreadable_nodes 1
`
	names := []string{"allocated_bytes", "bindings_in_doubt", "largest_fragment_bytes", "ledger_drift_bytes", "unreadable_nodes"}
	for i := range names {
		names[i] = "modeldock_gpu_memory_" + names[i]
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}
