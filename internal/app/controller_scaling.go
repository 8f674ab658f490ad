package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/remote"
	"modeldock.io/internal/elastic/scaler"
)

// buildScaler prepares a controller's scaler: it explains in every controller,
// wakes where a gateway asks, and runs with the operator. On one machine the
// process that runs the models scales them, and this one only explains.
func (c *controller) buildScaler() error {
	cfg := c.scalerConfig(unscaled{c.target}, c.opts.Scaling)
	if c.opts.Cluster.Enabled {
		objects, scalable := c.target.(scaler.Target)
		if !scalable {
			return errors.New("build the scaler: the cluster's objects cannot be scaled")
		}
		pull := &loadPull{urls: c.opts.Gateways.Ops, token: c.opts.Gateways.Token, loads: newGatewayLoads(c.clock), clock: c.clock}
		cfg.Target, cfg.Loads = objects, pull.now
		if w, cluster := c.world.(*clusterWorld); cluster {
			w.equip(&cfg)
		}
	} else {
		cfg.Loads = func(ctx context.Context) (scaler.Loads, error) {
			views := c.world.views()
			if len(views) == 0 {
				return scaler.Loads{}, errors.New("nobody tells the load")
			}
			view, err := views[0](ctx)
			return newGatewayLoads(c.clock).together(view.Loads), err
		}
	}
	c.scaler = scaler.New(cfg)
	return nil
}

// unscaled is a target whose counts another process writes.
type unscaled struct{ remote.Served }

// Scale implements delivery.Scalable.
func (unscaled) Scale(_ context.Context, ref budget.Ref, _ delivery.ScalingStep) error {
	return fmt.Errorf("scale %s/%s: the `modeldock up` that runs the models scales them", ref.Tenant, ref.ID)
}

// pullAge is how old an answer of the gateways may be: rounds come in bursts.
const pullAge = 500 * time.Millisecond

// loadPull asks every gateway for its load. A URL whose host has several
// addresses names several gateways.
type loadPull struct {
	urls  []string
	token string
	loads *gatewayLoads
	clock func() time.Time

	mu   sync.Mutex
	at   time.Time
	last scaler.Loads
}

func (p *loadPull) now(ctx context.Context) (scaler.Loads, error) {
	if len(p.urls) == 0 {
		return scaler.Loads{}, errors.New("no gateway is named by --gateway-ops: the load is not known")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.clock().Sub(p.at) < pullAge {
		return p.last, nil
	}
	ctx, cancel := context.WithTimeout(ctx, viewWait)
	defer cancel()
	var all sync.WaitGroup
	for _, u := range p.urls {
		addresses, err := each(ctx, u)
		if err != nil {
			p.loads.expect(u)
		}
		for _, a := range addresses {
			all.Go(func() { p.ask(ctx, a) })
		}
	}
	all.Wait()
	p.last, p.at = p.loads.together(), p.clock()
	return p.last, nil
}

func (p *loadPull) ask(ctx context.Context, url string) {
	view, err := gatewaySource(url, p.token)(ctx)
	if err != nil {
		p.loads.expect(url)
		return
	}
	p.loads.take(loadReport{Gateway: url, Loads: view.Loads})
}

// each is a URL for every address of a URL's host.
func each(ctx context.Context, text string) ([]string, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("read the URL of a gateway: %w", err)
	}
	addresses, err := net.DefaultResolver.LookupHost(ctx, u.Hostname())
	if err != nil {
		return nil, fmt.Errorf("find the gateways behind %s: %w", text, err)
	}
	out := make([]string, 0, len(addresses))
	for _, a := range addresses {
		one := *u
		one.Host = net.JoinHostPort(a, u.Port())
		if u.Port() == "" {
			one.Host = a
		}
		out = append(out, one.String())
	}
	return out, nil
}
