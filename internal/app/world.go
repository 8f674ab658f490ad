package app

import (
	"context"
	"time"

	"modeldock.io/internal/api"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery/remote"
)

// world is where a controller's objects and models are.
type world interface {
	target() remote.Served
	stamps() stampKeeper
	fleet() api.Fleet
	// spare is nil where nobody keeps account of a cluster's cards.
	spare() spareCard
	// informer is nil where there is nothing that an operator could share.
	informer() newInformer
	// views are the gateways that belong to it by itself.
	views() []viewSource
	// follow tells changed of what happens to the objects until ctx ends; an
	// error ends the controller.
	follow(ctx context.Context, changed func(budget.Ref)) error
	// lease is how long a relay may take for one intent; see relayLease.
	lease() time.Duration
	// noSleep is why no engine can stay loaded without its cards there; empty:
	// those that can do.
	noSleep() string
	// noAutoscaler is why no autoscaler of Kubernetes reaches it; empty: it does.
	noAutoscaler() string
	// where names it for people.
	where() string
	close() error
}

// machineWorld is the machine of a `modeldock up`, whose process has the target.
type machineWorld struct {
	dir    string
	client *remote.Client
}

func newMachineWorld(dir string) (*machineWorld, error) {
	client, err := remote.NewClient(dir)
	if err != nil {
		return nil, err
	}
	return &machineWorld{dir, client}, nil
}

// noKubernetes is why nothing but ModelDock scales on one machine.
const noKubernetes = "this is one machine, and autoscalers of Kubernetes do not reach it"

func (w *machineWorld) target() remote.Served { return w.client }
func (w *machineWorld) stamps() stampKeeper   { return machineStamps{w.client} }
func (w *machineWorld) fleet() api.Fleet      { return machineFleet{w.client} }
func (w *machineWorld) spare() spareCard      { return nil }
func (w *machineWorld) informer() newInformer { return nil }
func (w *machineWorld) views() []viewSource   { return []viewSource{machineSource(w.client)} }
func (w *machineWorld) where() string         { return "machine " + w.dir }
func (w *machineWorld) noSleep() string       { return "" }
func (w *machineWorld) noAutoscaler() string  { return noKubernetes }
func (w *machineWorld) lease() time.Duration  { return relayLease }
func (w *machineWorld) close() error          { return w.client.Close() }

func (w *machineWorld) follow(ctx context.Context, changed func(budget.Ref)) error {
	w.client.Watch(ctx, changed)
	return nil
}
