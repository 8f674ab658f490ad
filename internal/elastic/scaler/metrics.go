package scaler

import (
	"github.com/prometheus/client_golang/prometheus"

	"modeldock.io/internal/delivery"
	"modeldock.io/internal/elastic"
)

// Metrics count what a scaler did. A nil one counts nothing.
type Metrics struct {
	changes, activations      *prometheus.CounterVec
	spent, may, wanted, keeps *prometheus.GaugeVec
}

// NewMetrics returns them, to be registered.
func NewMetrics() *Metrics {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "modeldock_warm_pool_" + name, Help: help}, labels)
	}
	m := &Metrics{
		activations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "modeldock_warm_pool_activations_total",
			Help: "First callers after a pause, by how they found their model: hot (kept ready), warm (started at once), cold (it waited for a card or a node).",
		}, []string{"pool", "kind"}),
		spent:  gauge("spent_gpu_hours", "GPU-hours that a pool spent today on what nobody called.", "pool"),
		may:    gauge("budget_gpu_hours", "GPU-hours that it may spend in a day.", "pool"),
		wanted: gauge("wanted", "Models (hot) and rooms for replicas (buffer) that a pool should keep ready now.", "pool", "class", "kind"),
		keeps:  gauge("kept", "Those of them that its budget pays for and that there are.", "pool", "class", "kind"),
	}
	m.changes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "modeldock_scaling_changes_total", Help: "Changes of the number of replicas, by direction (up, down) and reason.",
	}, []string{"direction", "reason"})
	// What did not happen yet is zero, and not absent.
	for _, reason := range []string{elastic.ReasonDesired, elastic.ReasonActivated, elastic.ReasonPrewarmed} {
		m.changes.WithLabelValues("up", reason)
	}
	for _, reason := range []string{elastic.ReasonDesired, elastic.ReasonIdle, ReasonYielded} {
		m.changes.WithLabelValues("down", reason)
	}
	return m
}

func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.changes, m.activations, m.spent, m.may, m.wanted, m.keeps}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(ch)
	}
}

// warm shows what a pool keeps ready.
func (m *Metrics) warm(pool string, w *warmPool) {
	if m == nil {
		return
	}
	m.spent.WithLabelValues(pool).Set(w.day.GPUHours())
	m.may.WithLabelValues(pool).Set(w.settings.GPUHoursPerDay)
	for _, c := range w.plan.Classes {
		class := string(c.Class)
		m.wanted.WithLabelValues(pool, class, "hot").Set(float64(c.Hot.Wanted))
		m.keeps.WithLabelValues(pool, class, "hot").Set(float64(c.Hot.Kept))
		m.wanted.WithLabelValues(pool, class, "buffer").Set(float64(c.Buffers.Wanted))
		m.keeps.WithLabelValues(pool, class, "buffer").Set(float64(w.day.Buffers[c.Class]))
	}
}

// forget removes what is shown of a pool that keeps nothing any more.
func (m *Metrics) forget(pool string) {
	if m == nil {
		return
	}
	for _, g := range []*prometheus.GaugeVec{m.spent, m.may, m.wanted, m.keeps} {
		g.DeletePartialMatch(prometheus.Labels{"pool": pool})
	}
}

func (m *Metrics) activated(pool string, kind elastic.Activation) {
	if m != nil {
		m.activations.WithLabelValues(pool, string(kind)).Inc()
	}
}

func (m *Metrics) changed(step delivery.ScalingStep) {
	if m == nil || step.From == step.To {
		return
	}
	direction := "up"
	if step.To < step.From {
		direction = "down"
	}
	m.changes.WithLabelValues(direction, step.Reason).Inc()
}
