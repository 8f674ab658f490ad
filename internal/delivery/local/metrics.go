package local

import (
	"github.com/prometheus/client_golang/prometheus"

	"modeldock.io/internal/delivery"
)

// How a replica came to serve, in the words of warm pools.
const (
	activatedWarm = "warm" // woken from host memory
	activatedCold = "cold" // started
)

// Metrics show which engines sleep, how replicas came to serve, and what cannot
// be placed. A nil one shows nothing.
type Metrics struct {
	asleep, memory       prometheus.Gauge
	failing, unplaceable prometheus.Gauge
	activations          *prometheus.CounterVec
}

// NewMetrics returns them, to be registered.
func NewMetrics() *Metrics {
	m := &Metrics{
		asleep:      prometheus.NewGauge(prometheus.GaugeOpts{Name: "modeldock_replicas_asleep", Help: "Replicas whose engines sleep in host memory, without their cards."}),
		memory:      prometheus.NewGauge(prometheus.GaugeOpts{Name: "modeldock_asleep_memory_bytes", Help: "Host memory that is accounted to engines which sleep, fall asleep or wake up."}),
		failing:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "modeldock_placement_failing", Help: "1 while nothing can be placed on this machine, because the figures of its cards make no sense; 0 is the only good value."}),
		unplaceable: prometheus.NewGauge(prometheus.GaugeOpts{Name: "modeldock_objects_unplaceable", Help: "Objects that are held because no submit could have asked for them; 0 is the only good value."}),
		activations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "modeldock_replica_activations_total", Help: "Replicas that came to serve, by how: warm (woken from host memory), cold (started).",
		}, []string{"kind"}),
	}
	for _, kind := range []string{activatedWarm, activatedCold} {
		m.activations.WithLabelValues(kind)
	}
	return m
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	m.asleep.Describe(ch)
	m.memory.Describe(ch)
	m.failing.Describe(ch)
	m.unplaceable.Describe(ch)
	m.activations.Describe(ch)
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.asleep.Collect(ch)
	m.memory.Collect(ch)
	m.failing.Collect(ch)
	m.unplaceable.Collect(ch)
	m.activations.Collect(ch)
}

// shows brings the figures of what sleeps, and of what cannot be placed, up to
// date; unplanned is why nothing can.
func (m *Metrics) shows(objects map[string]*object, unplanned error) {
	if m == nil {
		return
	}
	asleep, mib, unplaceable := 0, int64(0), 0
	for _, o := range objects {
		for _, s := range o.slots {
			if s.run == nil && s.reason == delivery.Unplaceable { // of one slot at most
				unplaceable++
			}
			if s.run == nil || s.run.sleep == Awake {
				continue
			}
			mib += o.rec.Model.HostMiB()
			if s.run.sleep == Asleep {
				asleep++
			}
		}
	}
	m.asleep.Set(float64(asleep))
	m.memory.Set(float64(mib) * (1 << 20))
	m.unplaceable.Set(float64(unplaceable))
	failing := 0.0
	if unplanned != nil {
		failing = 1
	}
	m.failing.Set(failing)
}

// serves counts a replica that has come to serve.
func (m *Metrics) serves(r *run) {
	if m == nil {
		return
	}
	kind := activatedCold
	if !r.wokenAt.IsZero() {
		kind = activatedWarm
	}
	m.activations.WithLabelValues(kind).Inc()
}
