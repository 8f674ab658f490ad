package app

import (
	"context"

	"modeldock.io/internal/delivery/remote"
	"modeldock.io/internal/traffic"
)

// wake asks for a replica of a sleeping model, beside the call that waits for
// it: the process that runs the models, or any controller.
func (g *gatewayProcess) wake(w traffic.Wake) {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), wakeWait)
		defer cancel()
		if err := g.askToWake(ctx, w); err != nil {
			g.log.Warn("a sleeping model is not woken; it is asked for again while callers wait", "owner", w.Owner, "model", w.Model, "error", err)
		}
	}()
}

func (g *gatewayProcess) askToWake(ctx context.Context, w traffic.Wake) error {
	if g.opts.Endpoints.Cluster.Enabled {
		return g.feed.Wake(ctx, w)
	}
	machine, err := remote.NewClient(g.opts.Endpoints.Machine)
	if err != nil {
		return err
	}
	defer func() { _ = machine.Close() }()
	return machine.Post(ctx, pathWake, w, &struct{}{})
}

// tellMachine tells the process that runs the models what this gateway has to
// do. On a cluster controllers ask for it.
func (g *gatewayProcess) tellMachine(ctx context.Context) {
	if g.opts.Endpoints.Cluster.Enabled {
		return
	}
	machine, err := remote.NewClient(g.opts.Endpoints.Machine)
	if err != nil {
		g.log.Warn("this gateway's load is not told to the process that scales the models", "error", err)
		return
	}
	defer func() { _ = machine.Close() }()
	name := relayOwner() + " " + g.opts.StateDir
	tellLoads(ctx, name, g.gateway.Loads, func(ctx context.Context, r loadReport) error {
		return machine.Post(ctx, pathLoad, r, &struct{}{})
	}, func(err error) { g.log.Debug("the load was not told", "error", err) })
}
