package gateway

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// otherLabel stands for what is unknown and for what is too much.
	otherLabel = "other"
	// maxMeters bounds the combinations of tenant, model and version that are
	// told apart, however many the snapshot has had over time.
	maxMeters = 2000
	// maxTenantMeters is one tenant's part of them.
	maxTenantMeters = maxMeters / 4
)

// metrics are the gateway's figures for Prometheus.
type metrics struct {
	requests        *prometheus.CounterVec
	firstByte       *prometheus.HistogramVec
	firstChunk      *prometheus.HistogramVec
	interChunk      *prometheus.HistogramVec
	queued          *prometheus.HistogramVec
	upstreamCancels prometheus.Counter
	refusals        *prometheus.CounterVec
	results         *prometheus.CounterVec
	retries         prometheus.Counter
	evictions       prometheus.Counter
	unrecorded      prometheus.Counter

	mu     sync.RWMutex
	meters map[meterKey]*meter
	of     map[string]int // meters of each tenant
}

type meterKey struct{ tenant, model, version string }

// meter has the label handles of one combination resolved, so that a request
// looks them up once.
type meter struct {
	firstByte, firstChunk, interChunk, queued prometheus.Observer
	requests                                  *prometheus.CounterVec // curried

	mu    sync.RWMutex
	codes map[int]prometheus.Counter
}

func newMetrics(g *Gateway) (*metrics, error) {
	seconds := []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "modeldock_gateway_requests_total",
			Help: "Requests answered, by the caller's tenant, owner/model, version and status.",
		}, []string{"tenant", "model", "version", "code"}),
		firstByte: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "modeldock_gateway_first_byte_seconds", Buckets: seconds,
			Help: "Time from the request's arrival to the engine's response header.",
		}, []string{"model", "version"}),
		firstChunk: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "modeldock_gateway_first_chunk_seconds", Buckets: seconds,
			Help: "Time from the request's arrival to the first content that was flushed to the caller.",
		}, []string{"model", "version"}),
		interChunk: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "modeldock_gateway_inter_chunk_seconds", Buckets: seconds,
			Help: "Time between two flushes of a stream after its first content.",
		}, []string{"model", "version"}),
		queued: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "modeldock_gateway_queued_seconds", Buckets: seconds,
			Help: "Time that requests waited for a replica, those that need not wait left out.",
		}, []string{"model", "version"}),
		upstreamCancels: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "modeldock_gateway_upstream_cancels_total",
			Help: "Requests that were cancelled at the engine because the caller left.",
		}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "modeldock_gateway_limit_refusals_total",
			Help: "Requests refused by a limit of their tenant or key, by what was used up; body_memory: by the room for bodies, body_pace: because theirs came too slowly.",
		}, []string{"limit"}),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "modeldock_gateway_result_cache_total",
			Help: "Requests to models whose result cache is on, by hit, miss or bypass.",
		}, []string{"result"}),
		retries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "modeldock_gateway_retries_total",
			Help: "Requests that were given to another replica because the first did not take them.",
		}),
		evictions: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "modeldock_gateway_evictions_total",
			Help: "Waiting requests that made room for those of other tenants or of a higher class.",
		}),
		unrecorded: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "modeldock_gateway_unrecorded_refusals_total",
			Help: "Requests that were refused at once and left no record, because their tenant had too many of them.",
		}),
		meters: map[meterKey]*meter{}, of: map[string]int{},
	}
	if g.cfg.Registerer == nil {
		return m, nil
	}
	age := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "modeldock_gateway_snapshot_age_seconds",
		Help: "Age of the keys, grants and models that the gateway decides by; -1 if it has none.",
	}, g.snapshotAge)
	bodies := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "modeldock_gateway_body_bytes",
		Help: "Memory that is taken for the bodies of requests that are read, wait or are being sent.",
	}, func() float64 { return float64(g.bodies.room.held.Load()) })
	for _, c := range []prometheus.Collector{bodies, m.requests, m.firstByte, m.firstChunk, m.interChunk, m.queued, m.upstreamCancels, m.refusals, m.results, m.retries, m.evictions, m.unrecorded, age, newLoadCollector(g), newEndpointCollector(g.cfg.Table)} {
		if err := g.cfg.Registerer.Register(c); err != nil {
			return nil, fmt.Errorf("register the gateway's metrics: %w", err)
		}
	}
	return m, nil
}

func (g *Gateway) snapshotAge() float64 {
	s := g.cfg.Snapshot()
	if s == nil {
		return -1
	}
	return g.cfg.Clock().Sub(s.At).Seconds()
}

// meter returns the handles of a combination; beyond the bound all share one.
func (m *metrics) meter(tenant, model, version string) *meter {
	k := meterKey{tenant, model, version}
	m.mu.RLock()
	found := m.meters[k]
	m.mu.RUnlock()
	if found != nil {
		return found
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if found = m.meters[k]; found != nil {
		return found
	}
	if len(m.meters) >= maxMeters {
		k = meterKey{otherLabel, otherLabel, otherLabel}
	} else if m.of[k.tenant] >= maxTenantMeters {
		k = meterKey{k.tenant, otherLabel, otherLabel}
	}
	if found = m.meters[k]; found != nil {
		return found
	}
	found = &meter{
		firstByte:  m.firstByte.WithLabelValues(k.model, k.version),
		firstChunk: m.firstChunk.WithLabelValues(k.model, k.version),
		interChunk: m.interChunk.WithLabelValues(k.model, k.version),
		queued:     m.queued.WithLabelValues(k.model, k.version),
		requests:   m.requests.MustCurryWith(prometheus.Labels{"tenant": k.tenant, "model": k.model, "version": k.version}),
		codes:      map[int]prometheus.Counter{},
	}
	m.meters[k] = found
	m.of[k.tenant]++
	return found
}

func (t *meter) answered(status int) {
	t.mu.RLock()
	c := t.codes[status]
	t.mu.RUnlock()
	if c == nil {
		t.mu.Lock()
		c = t.requests.WithLabelValues(strconv.Itoa(status))
		t.codes[status] = c
		t.mu.Unlock()
	}
	c.Inc()
}

// finished counts a request; one that named no model that its caller may use
// counts under "other": callers must not be able to make labels.
func (m *metrics) finished(x *exchange) {
	t := x.meter
	if t == nil {
		t = m.meter(x.rec.Tenant, otherLabel, otherLabel)
	}
	if x.rec.QueuedFor > 0 {
		t.queued.Observe(x.rec.QueuedFor.Seconds())
	}
	t.answered(x.rec.Status)
}

// limited counts a refusal by what was used up.
func (m *metrics) limited(what string) {
	m.refusals.WithLabelValues(strings.ReplaceAll(what, " ", "_")).Inc()
}
