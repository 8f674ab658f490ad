package nodeobject

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"modeldock.io/internal/device"
	"modeldock.io/internal/placement/nodecards"
)

const patience = 45 * time.Second

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never came that %s", what)
		}
	}
}

func setup(t *testing.T) (*Writer, *fake.Clientset) {
	t.Helper()
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"zone": "z"}}})
	w, err := New(Config{Node: "n", Client: client, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	return w, client
}

func run(t *testing.T, w *Writer) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

func nodeOf(t *testing.T, client *fake.Clientset) *corev1.Node {
	t.Helper()
	node, err := client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

func two() []device.Card {
	return []device.Card{
		{UUID: "GPU-1", Index: 0, Model: "NVIDIA A100-SXM4 40GB", Total: 40960, Healthy: true},
		{UUID: "GPU-2", Index: 1, Model: "NVIDIA A100-SXM4 40GB", Total: 20480, Healthy: true},
	}
}

func TestTheNodeSaysWhatItHas(t *testing.T) {
	t.Parallel()
	w, client := setup(t)
	run(t, w)
	w.Set(two())
	eventually(t, "the cards are written", func() bool { return nodeOf(t, client).Annotations[nodecards.Annotation] != "" })
	node := nodeOf(t, client)
	cards, err := nodecards.Parse(node.Annotations[nodecards.Annotation])
	if err != nil || len(cards) != 2 || !cards[1].Healthy || cards[1].TotalMiB != 20480 || cards[1].Isolation != nodecards.IsolationNone {
		t.Fatalf("%+v (%v)", cards, err)
	}
	want := map[string]string{"zone": "z", LabelCount: "2", LabelModel: "NVIDIA-A100-SXM4-40GB", LabelMemory: "20480", LabelSimulated: "false"}
	if !maps.Equal(node.Labels, want) {
		t.Errorf("labels %v, want %v", node.Labels, want)
	}
	sick := two()
	sick[1].Healthy = false
	w.Set(sick)
	eventually(t, "the sick card is written", func() bool {
		cards, err := nodecards.Parse(nodeOf(t, client).Annotations[nodecards.Annotation])
		return err == nil && len(cards) == 2 && !cards[1].Healthy
	})
	eventually(t, "two writes are counted for two changes", func() bool { return testutil.ToFloat64(w.writes.WithLabelValues("written")) == 2 })
}

func TestWhatIsThereIsNotWritten(t *testing.T) {
	t.Parallel()
	w, client := setup(t)
	for range 3 {
		if err := w.write(t.Context(), two()); err != nil {
			t.Fatal(err)
		}
	}
	if n := testutil.ToFloat64(w.writes.WithLabelValues("written")); n != 1 {
		t.Fatalf("%v writes", n)
	}
	node := nodeOf(t, client)
	delete(node.Labels, LabelMemory)
	if _, err := client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := w.write(t.Context(), two()); err != nil || nodeOf(t, client).Labels[LabelMemory] == "" {
		t.Errorf("a label that somebody took away does not come back (%v)", err)
	}
}

func TestItIsTriedAgain(t *testing.T) {
	t.Parallel()
	w, client := setup(t)
	refused := 0
	client.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		refused++
		return refused < 3, nil, errors.New("away")
	})
	run(t, w)
	w.Set(two())
	eventually(t, "the third attempt is written", func() bool { return testutil.ToFloat64(w.writes.WithLabelValues("written")) == 1 })
	if n := testutil.ToFloat64(w.writes.WithLabelValues("failed")); n != 2 {
		t.Errorf("%v attempts failed", n)
	}
}

func TestLabelValue(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"a b": "a-b", " x ": "x", "(odd)": "odd", "": "", "---": "", strings.Repeat("y", 70): strings.Repeat("y", 63)} {
		if got := labelValue(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}
