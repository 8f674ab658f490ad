package app

import (
	"context"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/local"
	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/route"
)

// fleet shows the local target's cards to the API.
type fleet struct{ machine *local.Target }

// Nodes returns this machine with every allocation named.
func (f fleet) Nodes(context.Context) ([]openapi.Node, error) {
	nodes, err := f.machine.Nodes()
	if err != nil {
		return nil, err
	}
	out := make([]openapi.Node, 0, len(nodes))
	for _, n := range nodes {
		node := openapi.Node{Node: n.Name, Simulated: n.Simulated, LargestFragmentMiB: n.LargestFragmentMiB, Cards: []openapi.Card{}}
		for _, c := range n.Cards {
			node.Cards = append(node.Cards, cardWire(c, n.Simulated))
		}
		out = append(out, node)
	}
	return out, nil
}

func cardWire(c local.NodeCard, simulated bool) openapi.Card {
	card := openapi.Card{
		Uuid: c.UUID, Index: c.Index, Model: c.Model, Simulated: simulated, TotalMiB: c.Total,
		ReservedMiB: c.ReservedMiB, AllocatedMiB: c.AllocatedMiB, FreeMiB: c.FreeMiB, UnaccountedMiB: c.UnaccountedMiB, Healthy: c.Healthy,
		Isolation: openapi.CardIsolationNone, Allocations: []openapi.Allocation{},
	}
	if c.Measured {
		age := c.MeasuredAge.Seconds()
		card.MeasuredMiB, card.MeasuredAgeSeconds = &c.Used, &age
	}
	for _, a := range c.Allocations {
		card.Allocations = append(card.Allocations, openapi.Allocation{Uid: a.UID, Tenant: a.Ref.Tenant, RequestId: a.Ref.ID, Mib: a.MiB})
	}
	return card
}

// load shows the gateway's view of endpoints and queues to the API.
type load struct{ p *platform }

// Endpoints returns the routable replicas of one reservation.
func (l load) Endpoints(ref budget.Ref) ([]traffic.Endpoint, error) {
	return endpointsOf(ref, l.p.table.Endpoints()), nil
}

// InFlight counts the requests that run on a replica.
func (l load) InFlight(endpointUID string) int { return l.p.table.InFlight(endpointUID) }

// Queue counts the callers that wait for a reservation's model.
func (l load) Queue(ref budget.Ref) int {
	waiting := l.p.gateway.Waiting()
	for _, m := range l.p.directory.snapshot().Models {
		if m.Owner == ref.Tenant && m.RequestID == ref.ID {
			return waiting[route.Key{Owner: m.Owner, Model: m.Name, Version: m.Version}]
		}
	}
	return 0
}

// done tells what a round of a loop did.
func done(sum delivery.Summary) []openapi.StepDone {
	var out []openapi.StepDone
	for _, d := range sum.Steps {
		step := openapi.StepDone{Tenant: d.Ref.Tenant, Id: d.Ref.ID, Did: d.Did}
		if d.Note != "" {
			step.Detail = &d.Note
		}
		out = append(out, step)
	}
	return out
}
