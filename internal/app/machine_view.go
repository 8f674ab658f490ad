package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery/remote"
	"modeldock.io/internal/traffic"
)

// viewAge is how old the view of another process's traffic may be.
const viewAge = 100 * time.Millisecond

// machineView shows a controller's API what the machine's own process sees:
// cards, endpoints and queues.
type machineView struct {
	machine *remote.Client
	clock   func() time.Time
	log     *slog.Logger

	mu   sync.Mutex
	at   time.Time
	last trafficView
}

// Nodes implements api.Fleet.
func (v *machineView) Nodes(ctx context.Context) ([]openapi.Node, error) {
	var nodes []openapi.Node
	err := v.machine.Get(ctx, pathNodes, &nodes)
	return nodes, err
}

// Endpoints implements api.Load.
func (v *machineView) Endpoints(ref budget.Ref) []traffic.Endpoint {
	var out []traffic.Endpoint
	for _, e := range v.traffic().Endpoints {
		if e.Owner == ref.Tenant && e.RequestID == ref.ID {
			out = append(out, e)
		}
	}
	return out
}

// InFlight implements api.Load.
func (v *machineView) InFlight(endpointUID string) int { return v.traffic().InFlight[endpointUID] }

// Queue implements api.Load.
func (v *machineView) Queue(ref budget.Ref) int {
	for _, q := range v.traffic().Queues {
		if q.Ref == ref {
			return q.Callers
		}
	}
	return 0
}

// traffic asks at most once in viewAge: one list of models asks many times. A
// machine that does not answer routes nothing.
func (v *machineView) traffic() trafficView {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.clock().Sub(v.at) < viewAge {
		return v.last
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var now trafficView
	if err := v.machine.Get(ctx, pathTraffic, &now); err != nil {
		v.log.Warn("the machine's endpoints cannot be read", "error", err)
		now = trafficView{}
	}
	v.last, v.at = now, v.clock()
	return v.last
}

// machineStamps are the stamps in the machine's data directory, where its own
// process keeps them.
type machineStamps struct{ machine *remote.Client }

func (m machineStamps) read(ctx context.Context, incarnation string) (int64, error) {
	return m.call(ctx, stampCall{incarnation, 0})
}

func (m machineStamps) raise(ctx context.Context, incarnation string, seq int64) error {
	_, err := m.call(ctx, stampCall{incarnation, seq})
	return err
}

func (m machineStamps) call(ctx context.Context, call stampCall) (int64, error) {
	var answer stampCall
	err := m.machine.Post(ctx, pathStamp, call, &answer)
	return answer.Seq, err
}
