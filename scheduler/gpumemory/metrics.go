package gpumemory

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics/legacyregistry"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"modeldock.io/internal/placement"
	"modeldock.io/internal/placement/nodecards"
)

const mib = 1 << 20

// collector computes the metrics when they are asked for, from what the API
// server last showed.
type collector struct {
	plugin                                              *Plugin
	allocated, largest, fragmented, drift, doubts, read *prometheus.Desc
}

func newCollector(p *Plugin) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("modeldock_gpu_memory_"+name, help, labels, nil)
	}
	return &collector{
		plugin:     p,
		allocated:  desc("allocated_bytes", "Memory of a card that belongs to Pods.", "node", "card"),
		largest:    desc("largest_fragment_bytes", "The most that one Pod can get on one card of the node.", "node"),
		fragmented: desc("fragmented_bytes", "Free memory that requests of the sizes seen lately are expected not to be able to use.", "node"),
		drift:      desc("ledger_drift_bytes", "Memory that the scheduler counts for Pods which the API server does not show as bound; 0 at rest.", "node"),
		doubts:     desc("bindings_in_doubt", "Bindings that were answered ambiguously; their cards stay counted."),
		read:       desc("unreadable_nodes", "Nodes whose cards cannot be used because their description is wrong."),
	}
}

// register makes the scheduler's /metrics show them.
func (p *Plugin) register() error {
	err := legacyregistry.Registerer().Register(newCollector(p))
	var twice prometheus.AlreadyRegisteredError
	if errors.As(err, &twice) {
		return fmt.Errorf("%s is enabled in two profiles, which would not see each other's decisions; enable it in one: %w", Name, err)
	}
	return err
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.allocated, c.largest, c.fragmented, c.drift, c.doubts, c.read} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	core := c.plugin.handle.SharedInformerFactory().Core().V1()
	nodes, err := core.Nodes().Lister().List(labels.Everything())
	if err != nil {
		to <- prometheus.NewInvalidMetric(c.allocated, fmt.Errorf("list nodes: %w", err))
		return
	}
	pods, err := core.Pods().Lister().List(labels.Everything())
	if err != nil {
		to <- prometheus.NewInvalidMetric(c.allocated, fmt.Errorf("list Pods: %w", err))
		return
	}
	byNode, shown := map[string][]fwk.PodInfo{}, map[types.UID]string{}
	for _, pod := range pods {
		if pod.Spec.NodeName == "" {
			continue
		}
		shown[pod.UID] = pod.Spec.NodeName
		if info, err := framework.NewPodInfo(pod); err == nil {
			byNode[pod.Spec.NodeName] = append(byNode[pod.Spec.NodeName], info)
		}
	}
	sizes := c.plugin.sizes()
	drift := c.plugin.drift(shown)
	var unreadable int64
	for _, node := range nodes {
		if node.Annotations[nodecards.Annotation] == "" {
			continue
		}
		view, err := c.plugin.shownView(node, byNode[node.Name])
		if err != nil {
			unreadable++
			continue
		}
		for card := range view.Cards() {
			gauge(c.allocated, card.AllocatedMiB*mib, node.Name, card.UUID)
		}
		gauge(c.largest, view.LargestMiB()*mib, node.Name)
		gauge(c.fragmented, view.FragmentedMiB(sizes)*mib, node.Name)
		gauge(c.drift, drift[node.Name]*mib, node.Name)
	}
	var doubts int64
	for _, h := range c.plugin.ledger.inDoubt("") {
		if h.expiry.IsZero() { // what the API server shows is doubted no more, only kept
			doubts++
		}
	}
	gauge(c.doubts, doubts)
	gauge(c.read, unreadable)
}

// shownView is a node as the API server shows it.
func (p *Plugin) shownView(node *v1.Node, pods []fwk.PodInfo) (*placement.View, error) {
	described, err := p.views.described(node)
	if err != nil {
		return nil, err
	}
	var samples map[string]placement.Sample
	if p.measured != nil {
		samples, _ = p.measured.Node(node.Name)
	}
	cards, _, err := p.cards(described, samples, p.now())
	if err != nil {
		return nil, err
	}
	return p.count(node.Name, cards, pods)
}

// drift sums up what is counted only in memory.
func (p *Plugin) drift(shown map[types.UID]string) map[string]int64 {
	of := map[string]int64{}
	for _, h := range p.ledger.all() {
		if shown[h.pod] != h.node && h.expiry.IsZero() {
			of[h.node] += h.mib * int64(len(h.cards))
		}
	}
	return of
}

func (p *Plugin) sizes() *placement.Sizes {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.recent.Sizes()
}
