package api

import (
	"fmt"
	"math"
	"net/http"

	"github.com/gin-gonic/gin"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/modelspec"
	"modeldock.io/internal/placement"
)

// FitNodes answers where a model would go now, by the same core that places
// models. It places nothing.
func (s handlers) FitNodes(c *gin.Context) {
	var in openapi.FitQuestion
	if err := body(c, &in); err != nil {
		s.fail(c, err)
		return
	}
	r := placement.Request{MiB: in.GpuMemoryMiB, Cards: value(in.Gpus, 1), Class: modelspec.ClassLLM, Workload: modelspec.WorkloadOnline}
	if err := r.Check(); err != nil {
		s.fail(c, invalid("gpuMemoryMiB", "%s", err.Error()))
		return
	}
	nodes, err := s.Fleet.Nodes(c.Request.Context())
	if err != nil {
		s.fail(c, err)
		return
	}
	answer, err := fit(nodes, r)
	if err != nil {
		s.fail(c, fmt.Errorf("ask where %d MiB would fit: %w", r.MiB, err))
		return
	}
	c.JSON(http.StatusOK, answer)
}

func fit(nodes []openapi.Node, r placement.Request) (openapi.Fit, error) {
	var views []*placement.View
	var recent placement.Recent
	for _, n := range nodes {
		v, err := viewOf(n, &recent)
		if err != nil {
			return openapi.Fit{}, err
		}
		views = append(views, v)
	}
	seen := recent.Sizes()
	best, err := placement.Choose(views, r, seen)
	if err != nil {
		return openapi.Fit{}, err
	}
	out := openapi.Fit{Fits: best.Fits(), Node: some(best.Node), Reason: some(best.Reason), Nodes: []openapi.NodeFit{}}
	for i, v := range views {
		node := openapi.NodeFit{Node: v.Name, Simulated: nodes[i].Simulated, Cards: []openapi.FitCard{}}
		var choice placement.Choice
		if choice, node.Fits = v.Fit(&r, seen, nil); !node.Fits {
			node.Reason = some(v.Shortfall(&r).String())
		}
		for _, card := range choice.Cards {
			node.Cards = append(node.Cards, openapi.FitCard{Uuid: card.UUID, Index: card.Index, FreeMiB: card.FreeMiB})
		}
		out.Nodes = append(out.Nodes, node)
	}
	return out, nil
}

// viewOf reads a node as it is shown, and remembers what its replicas asked for.
func viewOf(n openapi.Node, recent *placement.Recent) (*placement.View, error) {
	node := placement.Node{Name: n.Node}
	var held []placement.Allocation
	asked := map[string]placement.Request{}
	var owners []string
	for _, c := range n.Cards {
		node.Cards = append(node.Cards, placement.Card{
			UUID: c.Uuid, Index: c.Index, Model: c.Model, TotalMiB: c.TotalMiB, ReservedMiB: c.ReservedMiB,
			UnaccountedMiB: c.UnaccountedMiB, Stale: value(c.MeasuredAgeSeconds, math.Inf(-1)) > placement.MeasuredFor.Seconds(), Healthy: c.Healthy,
		})
		for _, a := range c.Allocations {
			held = append(held, placement.Allocation{Owner: a.Uid, Card: c.Uuid, MiB: a.Mib})
			r, known := asked[a.Uid]
			if !known {
				owners = append(owners, a.Uid)
			}
			asked[a.Uid] = placement.Request{MiB: a.Mib, Cards: r.Cards + 1}
		}
	}
	for _, owner := range owners {
		if err := recent.Saw(owner, asked[owner]); err != nil {
			return nil, fmt.Errorf("replica %s on node %s: %w", owner, n.Node, err)
		}
	}
	return placement.NewView(node, held)
}
