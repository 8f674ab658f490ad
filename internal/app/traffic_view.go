package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery/remote"
	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway"
	"modeldock.io/internal/traffic/route"
)

// trafficView is what one gateway sees: which replicas are routable, what runs
// on them and who waits.
type trafficView struct {
	Endpoints []traffic.Endpoint
	InFlight  map[string]int // by endpoint UID
	Queues    []queued
	Loads     []traffic.Load
	unread    error // why it is not all that gateways see
}

type queued struct {
	Ref     budget.Ref
	Callers int
}

func viewOf(table *route.Table, g *gateway.Gateway, s *traffic.Snapshot) trafficView {
	view := trafficView{Endpoints: table.Endpoints(), InFlight: map[string]int{}, Loads: g.Loads()}
	for _, e := range view.Endpoints {
		view.InFlight[e.UID] = table.InFlight(e.UID)
	}
	if s == nil {
		return view
	}
	waiting := g.Waiting()
	for _, m := range s.Models {
		if n := waiting[route.Key{Owner: m.Owner, Model: m.Name, Version: m.Version}]; n > 0 {
			view.Queues = append(view.Queues, queued{budget.Ref{Tenant: m.Owner, ID: m.RequestID}, n})
		}
	}
	return view
}

const (
	// viewAge is how old the view of other processes' traffic may be.
	viewAge = 100 * time.Millisecond
	// viewWait bounds the wait for one that does not answer.
	viewWait = time.Second
)

// viewSource asks one gateway for what it sees.
type viewSource func(ctx context.Context) (trafficView, error)

func machineSource(machine *remote.Client) viewSource {
	return func(ctx context.Context) (view trafficView, err error) {
		err = machine.Get(ctx, pathTraffic, &view)
		return view, err
	}
}

// gatewaySource asks a gateway's operations listener.
func gatewaySource(url, token string) viewSource {
	return func(ctx context.Context) (view trafficView, err error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+pathTraffic, nil)
		if err != nil {
			return view, err
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return view, err
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			return view, fmt.Errorf("gateway %s answered %s", url, resp.Status)
		}
		return view, json.NewDecoder(resp.Body).Decode(&view)
	}
}

// trafficViews shows a controller's API what all gateways see together.
type trafficViews struct {
	sources []viewSource
	clock   func() time.Time
	log     *slog.Logger

	mu   sync.Mutex
	at   time.Time
	last trafficView
}

// Endpoints implements api.Load.
func (v *trafficViews) Endpoints(ref budget.Ref) ([]traffic.Endpoint, error) {
	view := v.now()
	return endpointsOf(ref, view.Endpoints), view.unread
}

func endpointsOf(ref budget.Ref, all []traffic.Endpoint) []traffic.Endpoint {
	var out []traffic.Endpoint
	for _, e := range all {
		if e.Owner == ref.Tenant && e.RequestID == ref.ID {
			out = append(out, e)
		}
	}
	return out
}

// InFlight implements api.Load.
func (v *trafficViews) InFlight(endpointUID string) int { return v.now().InFlight[endpointUID] }

// Queue implements api.Load.
func (v *trafficViews) Queue(ref budget.Ref) int {
	n := 0
	for _, q := range v.now().Queues {
		if q.Ref == ref {
			n += q.Callers
		}
	}
	return n
}

// now asks at most once in viewAge: one list of models asks many times. A
// gateway that does not answer routes nothing.
func (v *trafficViews) now() trafficView {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.clock().Sub(v.at) < viewAge {
		return v.last
	}
	ctx, cancel := context.WithTimeout(context.Background(), viewWait)
	defer cancel()
	views := make([]trafficView, len(v.sources))
	var all sync.WaitGroup
	for i, ask := range v.sources {
		all.Go(func() {
			var err error
			if views[i], err = ask(ctx); err != nil {
				v.log.Warn("a gateway's endpoints cannot be read", "error", err)
				views[i] = trafficView{unread: fmt.Errorf("a gateway's endpoints cannot be read: %w", err)}
			}
		})
	}
	all.Wait()
	v.last, v.at = together(views), v.clock()
	return v.last
}

// together joins what several gateways see; an endpoint counts once, since
// the first of them saw it.
func together(views []trafficView) trafficView {
	out := trafficView{InFlight: map[string]int{}}
	at := map[string]int{}
	for _, view := range views {
		for _, e := range view.Endpoints {
			i, known := at[e.UID]
			if !known {
				at[e.UID] = len(out.Endpoints)
				out.Endpoints = append(out.Endpoints, e)
			} else if e.Since.Before(out.Endpoints[i].Since) {
				out.Endpoints[i].Since = e.Since
			}
		}
		for uid, n := range view.InFlight {
			out.InFlight[uid] += n
		}
		out.unread = errors.Join(out.unread, view.unread)
		out.Queues = append(out.Queues, view.Queues...)
		out.Loads = append(out.Loads, view.Loads...)
	}
	return out
}
