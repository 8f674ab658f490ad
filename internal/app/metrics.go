package app

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/traffic/gateway"
)

const (
	// maxSeries bounds the tenants, and the pools, that have series of their
	// own; what the others hold is summed.
	maxSeries = 100
	// others is their label. No tenant can be called like that.
	others = "_other"
	// readLedger bounds what a scrape waits for the ledger.
	readLedger = 2 * time.Second
)

// registerMetrics exports what the process itself, its verification and its
// ledger have to show; gateway and recorder register their own.
func (c *control) registerMetrics(connections gateway.ConnectionBounds) (err error) {
	if c.callers, err = gateway.NewConnections(connections, c.log, c.registry); err != nil {
		return err
	}
	for _, m := range []prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		c.health.drift, c.health.verified, c.reconciled, c.scaled,
		newLedgerCollector(c.ledger, c.log),
	} {
		if err := c.registry.Register(m); err != nil {
			return fmt.Errorf("register the metrics: %w", err)
		}
	}
	return nil
}

// ledgerCollector reads caps and used slots when it is scraped.
type ledgerCollector struct {
	ledger budget.Quotas
	log    *slog.Logger

	tenantUsed, tenantCap, poolUsed, poolCap *prometheus.Desc
}

func newLedgerCollector(ledger budget.Quotas, log *slog.Logger) *ledgerCollector {
	desc := func(name, help, label string) *prometheus.Desc {
		return prometheus.NewDesc("modeldock_ledger_"+name, help, []string{label}, nil)
	}
	return &ledgerCollector{
		ledger: ledger, log: log,
		tenantUsed: desc("tenant_used_slots", "Slots that a tenant holds.", "tenant"),
		tenantCap:  desc("tenant_cap_slots", "Slots that a tenant may hold.", "tenant"),
		poolUsed:   desc("pool_used_slots", "Slots of a pool that are held.", "pool"),
		poolCap:    desc("pool_cap_slots", "Slots of a pool.", "pool"),
	}
}

// Describe implements prometheus.Collector.
func (c *ledgerCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.tenantUsed, c.tenantCap, c.poolUsed, c.poolCap} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. A ledger that cannot be read shows
// nothing: old figures would look like present ones.
func (c *ledgerCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readLedger)
	defer cancel()
	tenants, err := c.ledger.Tenants(ctx)
	if err != nil {
		c.log.Warn("slots are not exported: the tenants cannot be read", "error", err)
		return
	}
	pools, err := c.ledger.Pools(ctx)
	if err != nil {
		c.log.Warn("slots are not exported: the pools cannot be read", "error", err)
		return
	}
	for _, a := range bounded(tenants, func(t budget.Tenant) account { return account{t.Name, t.Used, t.Cap} }) {
		a.emit(ch, c.tenantUsed, c.tenantCap)
	}
	for _, a := range bounded(pools, func(p budget.Pool) account { return account{p.Name, p.Used, p.Cap} }) {
		a.emit(ch, c.poolUsed, c.poolCap)
	}
}

// account is one series.
type account struct {
	name        string
	used, limit int64
}

func (a account) emit(ch chan<- prometheus.Metric, used, limit *prometheus.Desc) {
	ch <- prometheus.MustNewConstMetric(used, prometheus.GaugeValue, float64(a.used), a.name)
	ch <- prometheus.MustNewConstMetric(limit, prometheus.GaugeValue, float64(a.limit), a.name)
}

// bounded gives those who hold most a series each and sums the others.
func bounded[T any](rows []T, read func(T) account) []account {
	all := make([]account, 0, len(rows))
	for _, r := range rows {
		all = append(all, read(r))
	}
	if len(all) <= maxSeries {
		return all
	}
	slices.SortStableFunc(all, func(a, b account) int { return int(min(1, max(-1, b.used-a.used))) })
	rest := account{name: others}
	for _, a := range all[maxSeries:] {
		rest.used += a.used
		rest.limit += a.limit
	}
	return append(all[:maxSeries:maxSeries], rest)
}
