package app

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/traffic"
)

func loadOf(id string, waiting int) []traffic.Load {
	return []traffic.Load{{Owner: "team-a", RequestID: id, Model: id, Version: "v1", Waiting: waiting, Replicas: []traffic.ReplicaLoad{{UID: "r", InFlight: waiting}}}}
}

// TestGatewayLoads: gateways add up; one that was not heard is told for as long
// as it may still have requests; one that left in order is forgotten at once.
func TestGatewayLoads(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	g := newGatewayLoads(func() time.Time { return now })
	ref := budget.Ref{Tenant: "team-a", ID: "m"}
	own := loadOf("m", 1)
	told := loadOf("m", 2)
	g.take(loadReport{Gateway: "b", Loads: told})
	g.take(loadReport{Gateway: "c", Loads: loadOf("m", 4)})
	for range 2 { // summing changes nothing of what was told
		if l := g.together(own).Of[ref]; l.Waiting != 7 || l.Replicas[0].InFlight != 7 || len(l.Replicas) != 1 {
			t.Errorf("together: %+v", l)
		}
	}
	if own[0].Replicas[0].InFlight != 1 || told[0].Replicas[0].InFlight != 2 {
		t.Error("what gateways told was changed")
	}
	g.take(loadReport{Gateway: "c", Leaving: true})
	now = now.Add(loadFresh)
	if all := g.together(own); all.Of[ref].Waiting != 1 || !slices.Equal(all.Unheard, []string{"b"}) {
		t.Errorf("one is silent, one left: %+v", all)
	}
	g.expect("d")
	g.expect("b") // known and silent stays what it is
	now = now.Add(loadForgotten - loadFresh)
	if all := g.together(own); !slices.Equal(all.Unheard, nil) {
		t.Errorf("after the time that its requests may take: %v", all.Unheard)
	}
}

// TestLoadPull: every address behind a URL is a gateway of its own, and one
// that does not answer is unheard, also if it never did.
func TestLoadPull(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef0123456789abcdef"
	var broken atomic.Bool
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() || r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_ = json.NewEncoder(w).Encode(trafficView{Loads: loadOf("m", 3)})
	}))
	t.Cleanup(gateway.Close)
	now := time.Now()
	clock := func() time.Time { return now }
	pull := &loadPull{urls: []string{strings.Replace(gateway.URL, "127.0.0.1", "localhost", 1), "http://127.0.0.1:1"}, token: token, loads: newGatewayLoads(clock), clock: clock}
	all, err := pull.now(context.Background())
	if err != nil || all.Of[budget.Ref{Tenant: "team-a", ID: "m"}].Waiting != 3 || !slices.Contains(all.Unheard, "http://127.0.0.1:1") {
		t.Errorf("%+v, %v", all, err)
	}
	broken.Store(true)
	now = now.Add(loadFresh)
	if all, err = pull.now(context.Background()); err != nil || len(all.Of) != 0 || !slices.Contains(all.Unheard, gateway.URL) {
		t.Errorf("it does not answer any more: %+v, %v", all, err)
	}
	nobody := &loadPull{loads: newGatewayLoads(clock), clock: clock}
	if _, err := nobody.now(context.Background()); err == nil || !strings.Contains(err.Error(), "--gateway-ops") {
		t.Errorf("no gateway is named: %v", err)
	}
}

// TestTellLoads: a gateway tells what it has to do, and at its end that it is gone.
func TestTellLoads(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	reports := make(chan loadReport, 10)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tellLoads(ctx, "g", func() []traffic.Load { return loadOf("m", 1) }, func(_ context.Context, r loadReport) error { reports <- r; return nil }, func(err error) { t.Error(err) })
	}()
	if r := <-reports; r.Gateway != "g" || r.Leaving || len(r.Loads) != 1 {
		t.Errorf("the first report: %+v", r)
	}
	stop()
	<-done
	var last loadReport
	for len(reports) > 0 {
		last = <-reports
	}
	if !last.Leaving {
		t.Errorf("the last report: %+v", last)
	}
}
