package simulated

import (
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics carry vLLM's names, so that whoever scrapes a real engine can
// scrape this one; what only a simulation has is named modeldock_simulated_*.
type metrics struct {
	registry  *prometheus.Registry
	running   prometheus.Gauge
	waiting   prometheus.Gauge
	cacheV0   prometheus.Gauge
	cacheV1   prometheus.Gauge
	prompted  prometheus.Counter
	generated prometheus.Counter
	finished  prometheus.Counter
	cancelled prometheus.Counter
	memory    prometheus.Gauge
	asleep    prometheus.Gauge
	wakes     prometheus.Counter
	silent    atomic.Bool // as an engine whose metrics broke
}

func newMetrics(opts Options) *metrics {
	labels := prometheus.Labels{"model_name": opts.Model}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels})
	}
	m := &metrics{
		registry:  prometheus.NewRegistry(),
		running:   gauge("vllm:num_requests_running", "Requests that are being generated."),
		waiting:   gauge("vllm:num_requests_waiting", "Requests that wait for a place."),
		cacheV0:   gauge("vllm:gpu_cache_usage_perc", "KV cache in use; 1 is full."),
		cacheV1:   gauge("vllm:kv_cache_usage_perc", "KV cache in use; 1 is full."),
		prompted:  counter("vllm:prompt_tokens_total", "Prompt tokens of answered requests."),
		generated: counter("vllm:generation_tokens_total", "Tokens generated."),
		finished:  counter("modeldock_simulated_requests_total", "Requests that left their place, however they ended."),
		cancelled: counter("modeldock_simulated_cancelled_total", "Requests whose caller left before the end."),
		memory:    gauge("modeldock_simulated_memory_bytes", "Device memory that the engine pretends to use."),
		asleep:    gauge("modeldock_simulated_asleep", "1 while it sleeps."),
		wakes:     counter("modeldock_simulated_wakes_total", "How often it was woken."),
	}
	m.uses(opts.MemoryMiB)
	m.registry.MustRegister(m.running, m.waiting, m.cacheV0, m.cacheV1, m.prompted, m.generated, m.finished, m.cancelled, m.memory, m.asleep, m.wakes)
	return m
}

func (m *metrics) uses(mib int64) { m.memory.Set(float64(mib) * (1 << 20)) }

func (m *metrics) slept() {
	m.uses(0)
	m.asleep.Set(1)
}

func (m *metrics) woken(mib int64) {
	m.uses(mib)
	m.asleep.Set(0)
	m.wakes.Inc()
}

func (m *metrics) enter(taken, places int) {
	m.running.Inc()
	m.cache(taken, places)
}

func (m *metrics) leave(taken, places int) {
	m.running.Dec()
	m.finished.Inc()
	m.cache(taken, places)
}

func (m *metrics) cache(taken, places int) {
	m.cacheV0.Set(float64(taken) / float64(places))
	m.cacheV1.Set(float64(taken) / float64(places))
}

func (m *metrics) handler() http.Handler {
	answer := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m.silent.Load() {
			fail(w, http.StatusServiceUnavailable, "silent", "the metrics were silenced by PUT /simulated/metrics?answer=false")
			return
		}
		answer.ServeHTTP(w, r)
	})
}

// silence ends or takes up the metrics' answers: ?answer=false, ?answer=true.
func (m *metrics) silence(w http.ResponseWriter, r *http.Request) {
	answer, err := strconv.ParseBool(r.URL.Query().Get("answer"))
	if err != nil {
		fail(w, http.StatusBadRequest, "invalid_request", "answer must be true or false")
		return
	}
	m.silent.Store(!answer)
	w.WriteHeader(http.StatusNoContent)
}
