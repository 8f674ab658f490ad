package app

import (
	"context"
	"slices"
	"sync"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/elastic/scaler"
	"modeldock.io/internal/traffic"
)

const (
	// loadEvery is how often a gateway tells its loads, or is asked for them.
	loadEvery = 2 * time.Second
	// loadFresh is how old what a gateway told may be; then it is unheard.
	loadFresh = 5 * loadEvery
	// loadForgotten is how long an unheard gateway may still have requests that
	// nobody knows of. One that ended in order says so.
	loadForgotten = 5 * time.Minute
)

// loadReport is what one gateway tells.
type loadReport struct {
	Gateway string
	Leaving bool // it ends and has nothing to do any more
	Loads   []traffic.Load
}

// gatewayLoads joins what gateways tell, and knows which were not heard.
type gatewayLoads struct {
	clock func() time.Time

	mu    sync.Mutex
	heard map[string]heardLoad
}

type heardLoad struct {
	at    time.Time
	loads []traffic.Load
}

func newGatewayLoads(clock func() time.Time) *gatewayLoads {
	return &gatewayLoads{clock: clock, heard: map[string]heardLoad{}}
}

// take notes a report.
func (g *gatewayLoads) take(r loadReport) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.Leaving {
		delete(g.heard, r.Gateway)
		return
	}
	g.heard[r.Gateway] = heardLoad{g.clock(), r.Loads}
}

// expect makes a gateway that was never heard an unheard one.
func (g *gatewayLoads) expect(gateway string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.heard[gateway]; !known {
		g.heard[gateway] = heardLoad{at: g.clock().Add(-loadFresh)}
	}
}

// together sums what is fresh. Without any gateway nothing is known at all.
func (g *gatewayLoads) together(own ...[]traffic.Load) scaler.Loads {
	out := scaler.Loads{Of: map[budget.Ref]traffic.Load{}}
	for _, loads := range own {
		addLoads(out.Of, loads)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock()
	for name, h := range g.heard {
		switch age := now.Sub(h.at); {
		case age < loadFresh:
			addLoads(out.Of, h.loads)
		case age < loadForgotten:
			out.Unheard = append(out.Unheard, name)
		default:
			delete(g.heard, name)
		}
	}
	slices.Sort(out.Unheard)
	return out
}

// addLoads sums a copy: replicas of what was told must stay as they were.
func addLoads(into map[budget.Ref]traffic.Load, loads []traffic.Load) {
	for _, l := range loads {
		ref := budget.Ref{Tenant: l.Owner, ID: l.RequestID}
		sum, known := into[ref]
		if !known {
			sum = traffic.Load{Owner: l.Owner, Model: l.Model, Version: l.Version, RequestID: l.RequestID}
		}
		sum.Add(l)
		into[ref] = sum
	}
}

// tellLoads tells what a gateway knows until ctx ends, and then that it is gone.
func tellLoads(ctx context.Context, name string, loads func() []traffic.Load, tell func(context.Context, loadReport) error, failed func(error)) {
	tick := time.NewTicker(loadEvery)
	defer tick.Stop()
	for {
		if err := tell(ctx, loadReport{Gateway: name, Loads: loads()}); err != nil && ctx.Err() == nil {
			failed(err)
		}
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = tell(last, loadReport{Gateway: name, Leaving: true}) // it is forgotten by itself
			return
		case <-tick.C:
		}
	}
}
