package app

import (
	"context"
	"fmt"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/delivery/remote"
)

// machineFleet shows a controller's API the cards that the machine's own
// process sees.
type machineFleet struct{ machine *remote.Client }

// Nodes implements api.Fleet.
func (f machineFleet) Nodes(ctx context.Context) ([]openapi.Node, error) {
	var nodes []openapi.Node
	err := f.machine.Get(ctx, pathNodes, &nodes)
	return nodes, err
}

// machineStamps are the stamps in the machine's data directory, where its own
// process keeps them.
type machineStamps struct{ machine *remote.Client }

func (m machineStamps) read(ctx context.Context, incarnation string) (int64, error) {
	return m.call(ctx, stampCall{Incarnation: incarnation})
}

func (m machineStamps) raise(ctx context.Context, incarnation string, seq int64) error {
	_, err := m.call(ctx, stampCall{Incarnation: incarnation, Seq: seq})
	return err
}

func (m machineStamps) call(ctx context.Context, call stampCall) (int64, error) {
	var answer stampCall
	if err := m.machine.Post(ctx, pathStamp, call, &answer); err != nil {
		return 0, err
	}
	if answer.Home != call.Incarnation {
		return 0, fmt.Errorf("the machine runs models for ledger %s, and this database is ledger %s: name the data directory of the `modeldock up` that uses this database with --machine", answer.Home, call.Incarnation)
	}
	return answer.Seq, nil
}
