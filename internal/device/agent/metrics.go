package agent

import (
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"modeldock.io/internal/device"
)

const mebibyte = 1 << 20

// metrics are one node's; cards are described as they are when asked.
type metrics struct {
	view func() ([]device.Card, time.Time)

	info, total, used, healthy, last *prometheus.Desc
	errors, published, unpublished   prometheus.Counter
}

func newMetrics(node string, r prometheus.Registerer, view func() ([]device.Card, time.Time)) (*metrics, error) {
	constant := prometheus.Labels{"node": node}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, constant)
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: constant})
	}
	m := &metrics{
		view:        view,
		info:        desc("modeldock_gpu_info", "1 for each card of this node.", "card", "index", "model", "isolation", "simulated"),
		total:       desc("modeldock_gpu_memory_total_bytes", "Memory of a card.", "card"),
		used:        desc("modeldock_gpu_memory_used_bytes", "Memory of a card that is in use, by anybody, as its driver says.", "card"),
		healthy:     desc("modeldock_gpu_healthy", "1 while a card takes models, else 0.", "card"),
		last:        desc("modeldock_gpu_reading_timestamp_seconds", "When the cards were last read."),
		errors:      counter("modeldock_gpu_reading_errors_total", "Readings of the cards that failed."),
		published:   counter("modeldock_gpu_measurements_published_total", "Samples of the memory in use that were published."),
		unpublished: counter("modeldock_gpu_measurements_unpublished_total", "Samples of the memory in use that could not be published; placement goes on by accounts alone."),
	}
	for _, c := range []prometheus.Collector{m, m.errors, m.published, m.unpublished} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("register the metrics of the cards: %w", err)
		}
	}
	return m, nil
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.info, m.total, m.used, m.healthy, m.last} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	cards, last := m.view()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for _, c := range cards {
		gauge(m.info, 1, c.UUID, strconv.Itoa(c.Index), c.Model, device.IsolationNone, strconv.FormatBool(c.Simulated))
		gauge(m.total, float64(c.Total*mebibyte), c.UUID)
		gauge(m.used, float64(c.Used*mebibyte), c.UUID)
		up := 0.0
		if c.Healthy {
			up = 1
		}
		gauge(m.healthy, up, c.UUID)
	}
	if !last.IsZero() {
		gauge(m.last, float64(last.UnixMilli())/1000)
	}
}
