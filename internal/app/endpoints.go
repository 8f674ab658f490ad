package app

import (
	"context"
	"log/slog"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery/remote"
	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/feed"
)

// endpointPoll is the safety net beside the machine's hints.
const endpointPoll = time.Second

// follow keeps set current until ctx ends. When the source does not answer,
// the last endpoints stay: whether they live is seen at the call.
func (s EndpointSource) follow(ctx context.Context, snapshots *feed.Client, set func([]traffic.Endpoint), log *slog.Logger) error {
	if s.Cluster.Enabled {
		return s.Cluster.followEndpoints(ctx, snapshots, set, log)
	}
	machine, err := remote.NewClient(s.Machine)
	if err != nil {
		return err
	}
	defer func() { _ = machine.Close() }()
	wake := make(chan struct{}, 1)
	go machine.Watch(ctx, func(budget.Ref) {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	tick := time.NewTicker(endpointPoll)
	defer tick.Stop()
	for {
		var view trafficView
		if err := machine.Get(ctx, pathTraffic, &view); err != nil {
			log.Debug("the machine's endpoints cannot be read; the last ones stay", "error", err)
		} else {
			set(view.Endpoints)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-tick.C:
		}
	}
}
