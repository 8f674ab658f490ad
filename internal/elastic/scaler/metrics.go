package scaler

import (
	"github.com/prometheus/client_golang/prometheus"

	"modeldock.io/internal/delivery"
)

// Metrics count what a scaler did. A nil one counts nothing.
type Metrics struct{ changes *prometheus.CounterVec }

// NewMetrics registers them.
func NewMetrics(to prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{changes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "modeldock_scaling_changes_total", Help: "Changes of the number of replicas, by direction (up, down) and reason.",
	}, []string{"direction", "reason"})}
	return m, to.Register(m.changes)
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
