package gateway

import (
	"github.com/prometheus/client_golang/prometheus"

	"modeldock.io/internal/traffic/route"
)

// loadCollector reads in-flight counts and queue lengths when it is scraped;
// requests pay nothing for them.
type loadCollector struct {
	g        *Gateway
	inFlight *prometheus.Desc
	waiting  *prometheus.Desc
}

func newLoadCollector(g *Gateway) *loadCollector {
	labels := []string{"model", "version"}
	return &loadCollector{
		g:        g,
		inFlight: prometheus.NewDesc("modeldock_gateway_in_flight", "Requests that run on replicas now.", labels, nil),
		waiting:  prometheus.NewDesc("modeldock_gateway_queue_depth", "Requests that wait for a ready replica.", labels, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *loadCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.inFlight
	ch <- c.waiting
}

// Collect implements prometheus.Collector. Every version that takes requests
// has a queue depth, zero included: an autoscaler must be able to tell "none
// waits" from "not known".
func (c *loadCollector) Collect(ch chan<- prometheus.Metric) {
	emit := func(desc *prometheus.Desc, k route.Key, n int) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), k.Owner+"/"+k.Model, k.Version)
	}
	for k, n := range c.g.cfg.Table.InFlightByKey() {
		emit(c.inFlight, k, n)
	}
	queues := c.g.room.Queues()
	if view, err := c.g.known(); err == nil {
		for _, versions := range view.live {
			for _, m := range versions {
				if _, waits := queues[keyOf(m)]; !waits {
					queues[keyOf(m)] = 0
				}
			}
		}
	}
	for k, n := range queues {
		emit(c.waiting, k, n)
	}
}
