package deviceplugin

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	registrations prometheus.Counter
	known         prometheus.Gauge
	refused       prometheus.Counter
}

func newMetrics(to prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		registrations: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "modeldock_gpu_kubelet_registrations_total", Help: "How often the device plugin registered with the kubelet; once per start of the kubelet.",
		}),
		known: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "modeldock_gpu_kubelet_holders_known", Help: "1 while the kubelet tells the device plugin who holds GPU memory. Otherwise what was known counts; where nothing was, nobody gets any while a card is sick.",
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "modeldock_gpu_kubelet_refusals_total", Help: "Containers that the kubelet had room for and the healthy cards had not: they went past the scheduler, or came while a card fell ill.",
		}),
	}
	if err := errors.Join(to.Register(m.registrations), to.Register(m.known), to.Register(m.refused)); err != nil {
		return nil, fmt.Errorf("register the metrics of the device plugin: %w", err)
	}
	return m, nil
}
