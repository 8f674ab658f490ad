package local

import (
	"github.com/prometheus/client_golang/prometheus"
)

// How a replica came to serve, in the words of warm pools.
const (
	activatedWarm = "warm" // woken from host memory
	activatedCold = "cold" // started
)

// Metrics show which engines sleep and how replicas came to serve. A nil one
// shows nothing.
type Metrics struct {
	asleep, memory prometheus.Gauge
	activations    *prometheus.CounterVec
}

// NewMetrics returns them, to be registered.
func NewMetrics() *Metrics {
	m := &Metrics{
		asleep: prometheus.NewGauge(prometheus.GaugeOpts{Name: "modeldock_replicas_asleep", Help: "Replicas whose engines sleep in host memory, without their cards."}),
		memory: prometheus.NewGauge(prometheus.GaugeOpts{Name: "modeldock_asleep_memory_bytes", Help: "Host memory that is accounted to engines which sleep, fall asleep or wake up."}),
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
	m.activations.Describe(ch)
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.asleep.Collect(ch)
	m.memory.Collect(ch)
	m.activations.Collect(ch)
}

// shows brings the figures of what sleeps up to date.
func (m *Metrics) shows(objects map[string]*object) {
	if m == nil {
		return
	}
	asleep, mib := 0, int64(0)
	for _, o := range objects {
		for _, s := range o.slots {
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
