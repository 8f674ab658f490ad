package scaler

import (
	"github.com/prometheus/client_golang/prometheus"

	"modeldock.io/internal/delivery"
	"modeldock.io/internal/elastic"
)

// Metrics count what a scaler did. A nil one counts nothing.
type Metrics struct{ changes *prometheus.CounterVec }

// NewMetrics returns them, to be registered.
func NewMetrics() *Metrics {
	m := &Metrics{changes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "modeldock_scaling_changes_total", Help: "Changes of the number of replicas, by direction (up, down) and reason.",
	}, []string{"direction", "reason"})}
	// What did not happen yet is zero, and not absent.
	for _, reason := range []string{elastic.ReasonDesired, elastic.ReasonActivated} {
		m.changes.WithLabelValues("up", reason)
	}
	for _, reason := range []string{elastic.ReasonDesired, elastic.ReasonIdle, ReasonYielded} {
		m.changes.WithLabelValues("down", reason)
	}
	return m
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) { m.changes.Describe(ch) }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) { m.changes.Collect(ch) }

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
