package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/budget"
)

func TestVerdictTellsReasons(t *testing.T) {
	t.Parallel()
	now := time.Unix(100, 0)
	h := newHealth(func() time.Time { return now })
	if ok, why := h.verdict(true); ok || len(why) != 1 {
		t.Errorf("before the start: %v, %v", ok, why)
	}
	h.ready(true)
	h.report(t.Context(), "ledger", nil)
	if ok, why := h.verdict(true); !ok || why == nil || len(why) != 0 {
		t.Errorf("all well: %v, %v", ok, why)
	}
	h.report(t.Context(), "ledger", errors.New("disk gone"))
	now = time.Unix(200, 0)
	h.report(t.Context(), "ledger", errors.New("disk gone"))
	h.report(t.Context(), "verify", nil)
	if ok, why := h.verdict(true); ok || len(why) != 1 || why[0] != "ledger: disk gone" {
		t.Errorf("ledger away: %v, %v", ok, why)
	}
	if ok, why := h.verdict(false); ok || len(why) != 1 || why[0] != "ledger: "+wordless {
		t.Errorf("ledger away, for strangers: %v, %v", ok, why)
	}
	parts := h.parts()
	if len(parts) != 2 || parts[0].Name != "ledger" || parts[0].Status != openapi.DiagnosticPartStatusDegraded || *parts[0].Reason != "disk gone" ||
		time.Time(parts[0].Since) != time.Unix(100, 0) || parts[1].Status != openapi.DiagnosticPartStatusOk || parts[1].Reason != nil {
		t.Errorf("parts: %+v", parts)
	}
	h.report(t.Context(), "ledger", nil)
	if ok, _ := h.verdict(true); !ok {
		t.Error("it does not recover")
	}
	// One slow answer is no outage, two are.
	slow := fmt.Errorf("read: %w", context.DeadlineExceeded)
	for _, err := range []error{slow, nil, slow} {
		h.report(t.Context(), "ledger", err)
		if ok, why := h.verdict(true); !ok {
			t.Errorf("one slow answer: %v", why)
		}
	}
	h.report(t.Context(), "ledger", slow)
	if ok, _ := h.verdict(true); ok {
		t.Error("two slow answers in a row are not told")
	}
	h.report(t.Context(), "ledger", nil)
	// What fails because the platform stops is no fault.
	ended, end := context.WithCancel(t.Context())
	end()
	h.report(ended, "ledger", context.Canceled)
	if ok, why := h.verdict(true); !ok {
		t.Errorf("at the end: %v", why)
	}
}

func TestLedgerMetrics(t *testing.T) {
	t.Parallel()
	l := openLedger(t, t.TempDir())
	if _, err := l.SetPool(t.Context(), "default", 8); err != nil {
		t.Fatal(err)
	}
	if _, err := l.SetQuota(t.Context(), "team-a", 1); err != nil {
		t.Fatal(err)
	}
	submit(t, l, "one")
	if _, err := l.Admit(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	c := newLedgerCollector(l, slog.New(slog.DiscardHandler))
	reg := prometheus.NewPedanticRegistry()
	if err := reg.Register(c); err != nil {
		t.Fatal(err)
	}
	got := gauges(t, reg)
	want := map[string]float64{
		"modeldock_ledger_pool_cap_slots default": 8, "modeldock_ledger_pool_used_slots default": 1,
		"modeldock_ledger_tenant_cap_slots team-a": 1, "modeldock_ledger_tenant_used_slots team-a": 1,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if left := gauges(t, reg); len(left) != 0 {
		t.Errorf("figures of a closed ledger: %v", left)
	}
}

// gauges maps "name label" to the value.
func gauges(t *testing.T, reg prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			out[name] = m.GetGauge().GetValue()
		}
	}
	return out
}

func TestLabelValuesAreBounded(t *testing.T) {
	t.Parallel()
	var pools []budget.Pool
	for i := range maxSeries + 50 {
		pools = append(pools, budget.Pool{Name: fmt.Sprintf("p%d", i), Used: int64(i), Cap: 1000})
	}
	got := bounded(pools, func(p budget.Pool) account { return account{p.Name, p.Used, p.Cap} })
	if len(got) != maxSeries+1 || got[0].name != fmt.Sprintf("p%d", maxSeries+49) {
		t.Fatalf("%d series, the first is %s", len(got), got[0].name)
	}
	rest := got[maxSeries]
	if rest.name != others || rest.used != 49*50/2 || rest.limit != 50*1000 {
		t.Errorf("the rest: %+v", rest)
	}
	if n := len(bounded(pools[:maxSeries], func(p budget.Pool) account { return account{p.Name, p.Used, p.Cap} })); n != maxSeries {
		t.Errorf("%d series for %d pools", n, maxSeries)
	}
}
