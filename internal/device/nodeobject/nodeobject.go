// Package nodeobject writes the cards of a node of a cluster into its Node
// object (account 2): as an annotation for the scheduler, and as labels for
// people and their selectors.
package nodeobject

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"

	"modeldock.io/internal/device"
)

// fieldManager owns what is written here.
const fieldManager = "modeldock-agent"

const (
	// lookEvery is how often the object is compared although nothing changed.
	lookEvery  = time.Minute
	retryFirst = 500 * time.Millisecond
	retryMost  = 15 * time.Second
	askWait    = 10 * time.Second
)

// Config is what a writer works with.
type Config struct {
	Node       string
	Client     kubernetes.Interface
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Writer keeps one Node object as its agent sees the cards. It implements
// agent.Sink.
type Writer struct {
	cfg    Config
	cards  chan []device.Card // the latest
	writes *prometheus.CounterVec
}

// New makes a writer, which Run starts.
func New(cfg Config) (*Writer, error) {
	w := &Writer{cfg: cfg, cards: make(chan []device.Card, 1), writes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "modeldock_gpu_node_writes_total", Help: "Writes of the cards to the Node object, and attempts to compare or write it that failed.",
		ConstLabels: prometheus.Labels{"node": cfg.Node},
	}, []string{"result"})}
	for _, result := range []string{"written", "failed"} {
		w.writes.WithLabelValues(result) // shown from the start
	}
	if err := cfg.Registerer.Register(w.writes); err != nil {
		return nil, fmt.Errorf("register the metrics of the Node object: %w", err)
	}
	return w, nil
}

// Set implements agent.Sink.
func (w *Writer) Set(cards []device.Card) {
	select {
	case <-w.cards:
	default:
	}
	w.cards <- cards // the agent tells one thing at a time
}

// Run writes what is set, as often as it takes, until ctx ends. What stands in
// the object then stays: the cards are still there.
func (w *Writer) Run(ctx context.Context) {
	var cards []device.Card
	select {
	case <-ctx.Done():
		return
	case cards = <-w.cards:
	}
	for wait, failing := retryFirst, false; ; {
		err := w.write(ctx, cards)
		pause := lookEvery
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			w.writes.WithLabelValues("failed").Inc()
			if !failing {
				w.cfg.Logger.Warn("the cards cannot be written to the Node object; it is tried again", "error", err)
			}
			failing, pause, wait = true, wait, min(2*wait, retryMost)
		default:
			failing, wait = false, retryFirst
		}
		select {
		case <-ctx.Done():
			return
		case cards = <-w.cards:
		case <-time.After(pause):
		}
	}
}

// write writes only what is not there yet.
func (w *Writer) write(ctx context.Context, cards []device.Card) error {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	want, err := describe(cards)
	if err != nil {
		return err
	}
	node, err := w.cfg.Client.CoreV1().Nodes().Get(ctx, w.cfg.Node, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the Node %s: %w", w.cfg.Node, err)
	}
	if want.standsIn(node) {
		return nil
	}
	// With its UID, a Node that is gone by now is not made by this.
	apply := corev1ac.Node(w.cfg.Node).WithUID(node.UID).WithAnnotations(want.annotations).WithLabels(want.labels)
	if _, err := w.cfg.Client.CoreV1().Nodes().Apply(ctx, apply, metav1.ApplyOptions{FieldManager: fieldManager, Force: true}); err != nil {
		return fmt.Errorf("write the cards to the Node %s: %w", w.cfg.Node, err)
	}
	w.writes.WithLabelValues("written").Inc()
	w.cfg.Logger.Info("the cards are written to the Node object", "cards", len(cards))
	return nil
}

// standsIn compares every annotation and label that is ours.
func (d description) standsIn(node *corev1.Node) bool {
	ours := map[string]string{}
	for _, key := range labels() {
		if value, there := node.Labels[key]; there {
			ours[key] = value
		}
	}
	if !maps.Equal(ours, d.labels) {
		return false
	}
	for key, value := range d.annotations {
		if have, there := node.Annotations[key]; !there || have != value {
			return false
		}
	}
	return true
}
