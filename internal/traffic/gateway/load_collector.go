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
	age      *prometheus.Desc
	tokens   *prometheus.Desc
	open     *prometheus.Desc
	engine   *prometheus.Desc
}

func newLoadCollector(g *Gateway) *loadCollector {
	labels := []string{"model", "version"}
	return &loadCollector{
		g:        g,
		inFlight: prometheus.NewDesc("modeldock_gateway_in_flight", "Requests that run on replicas now.", labels, nil),
		waiting:  prometheus.NewDesc("modeldock_gateway_queue_depth", "Requests that wait for a replica with room.", labels, nil),
		age:      prometheus.NewDesc("modeldock_gateway_queue_age_seconds", "How long the longest waiting request has waited.", labels, nil),
		tokens:   prometheus.NewDesc("modeldock_gateway_in_flight_tokens", "Estimated tokens of the requests that run on replicas now.", labels, nil),
		open:     prometheus.NewDesc("modeldock_gateway_open_breakers", "Replicas that get no requests because they failed.", labels, nil),
		engine:   prometheus.NewDesc("modeldock_gateway_engine_queue_depth", "Requests in the engines' own queues, where engines tell; absent if none does.", labels, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *loadCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.inFlight
	ch <- c.waiting
	ch <- c.age
	ch <- c.tokens
	ch <- c.open
	ch <- c.engine
}

// Collect implements prometheus.Collector. Every version that takes requests
// has a queue depth and a number of running ones, zero included, also while it
// sleeps: an autoscaler must be able to tell "none" from "not known". One that
// waits for budget has them only while it has callers: nothing scales it, and a
// tenant may have thousands.
func (c *loadCollector) Collect(ch chan<- prometheus.Metric) {
	emit := func(desc *prometheus.Desc, k route.Key, v float64) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, k.Owner+"/"+k.Model, k.Version)
	}
	running := c.g.cfg.Table.InFlightByKey()
	depth, age := map[route.Key]float64{}, map[route.Key]float64{}
	if view, err := c.g.known(); err == nil {
		for _, versions := range view.live {
			for _, m := range versions {
				if !m.Pending {
					depth[keyOf(m)] = 0
					running[keyOf(m)] += 0
				}
			}
		}
	}
	for k, n := range running {
		emit(c.inFlight, k, float64(n))
	}
	for k, q := range c.g.room.Queues() {
		depth[k.Key] += float64(q.Waiting)
		age[k.Key] = max(age[k.Key], q.Oldest.Seconds())
	}
	for k, n := range depth {
		emit(c.waiting, k, n)
		emit(c.age, k, age[k])
	}
	c.collectReplicas(emit)
}

// collectReplicas sums over the replicas of each version.
func (c *loadCollector) collectReplicas(emit func(*prometheus.Desc, route.Key, float64)) {
	tokens, open, engine := map[route.Key]float64{}, map[route.Key]float64{}, map[route.Key]float64{}
	for _, s := range c.g.cfg.Table.Standings() {
		k := route.KeyOf(s.Endpoint)
		tokens[k] += float64(s.Tokens)
		open[k] += 0
		if s.Open {
			open[k]++
		}
		if s.Signal != nil && s.Signal.Waiting.Known {
			engine[k] += s.Signal.Waiting.Value
		}
	}
	for k := range tokens {
		emit(c.tokens, k, tokens[k])
		emit(c.open, k, open[k])
	}
	for k, n := range engine {
		emit(c.engine, k, n)
	}
}
