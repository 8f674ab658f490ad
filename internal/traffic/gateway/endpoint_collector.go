package gateway

import (
	"github.com/prometheus/client_golang/prometheus"

	"modeldock.io/internal/traffic/route"
)

// maxEndpointSeries bounds how many replicas are told apart in metrics; of
// more, those with the smallest UIDs are shown. The sums by model are whole.
const maxEndpointSeries = 1000

// endpointCollector shows the load of each replica, as this gateway knows it,
// when it is scraped.
type endpointCollector struct {
	table    *route.Table
	inFlight *prometheus.Desc
	tokens   *prometheus.Desc
	waiting  *prometheus.Desc
	cache    *prometheus.Desc
	failures *prometheus.Desc
	open     *prometheus.Desc
}

func newEndpointCollector(t *route.Table) *endpointCollector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("modeldock_gateway_endpoint_"+name, help, []string{"model", "version", "endpoint"}, nil)
	}
	return &endpointCollector{
		table:    t,
		inFlight: desc("in_flight", "Requests of this gateway that run on the replica now."),
		tokens:   desc("in_flight_tokens", "Estimated tokens of the requests that run on the replica now."),
		waiting:  desc("queue_depth", "Requests in the engine's own queue; absent unless the engine told lately."),
		cache:    desc("kv_cache_usage", "Share of the engine's KV cache in use; absent unless the engine told lately."),
		failures: desc("failures_total", "Answers with 5xx, broken connections and refused ones."),
		open:     desc("breaker_open", "1 while the replica gets no requests because it failed."),
	}
}

// Describe implements prometheus.Collector.
func (c *endpointCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.inFlight, c.tokens, c.waiting, c.cache, c.failures, c.open} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *endpointCollector) Collect(ch chan<- prometheus.Metric) {
	standings := c.table.Standings()
	for _, s := range standings[:min(len(standings), maxEndpointSeries)] {
		emit := func(d *prometheus.Desc, kind prometheus.ValueType, v float64) {
			ch <- prometheus.MustNewConstMetric(d, kind, v, s.Endpoint.Owner+"/"+s.Endpoint.Model, s.Endpoint.Version, s.Endpoint.UID)
		}
		emit(c.inFlight, prometheus.GaugeValue, float64(s.InFlight))
		emit(c.tokens, prometheus.GaugeValue, float64(s.Tokens))
		emit(c.failures, prometheus.CounterValue, float64(s.Failures))
		open := 0.0
		if s.Open {
			open = 1
		}
		emit(c.open, prometheus.GaugeValue, open)
		if s.Signal != nil && s.Signal.Waiting.Known {
			emit(c.waiting, prometheus.GaugeValue, s.Signal.Waiting.Value)
		}
		if s.Signal != nil && s.Signal.KVUsage.Known {
			emit(c.cache, prometheus.GaugeValue, s.Signal.KVUsage.Value)
		}
	}
}
