package app

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/device/measured/redismeasured"
	"modeldock.io/internal/device/nodeview"
	"modeldock.io/internal/elastic/scaler"
	"modeldock.io/internal/kube"
	"modeldock.io/internal/placement"
	"modeldock.io/internal/traffic/redislink"
)

// clusterCards are the cards of a cluster whose Pods ask for some. It
// implements api.Fleet and what delivery is told of cards.
type clusterCards struct {
	nodes    *nodeview.Cluster
	measured *redismeasured.View // nil: nothing is measured
}

func newClusterCards(cfg *rest.Config, gpu GPUOptions, clock func() time.Time, log *slog.Logger, registry prometheus.Registerer) (*clusterCards, error) {
	client, err := kube.NewClient(cfg, "modeldock-cards")
	if err != nil {
		return nil, err
	}
	c := &clusterCards{}
	view := nodeview.Config{Client: client, Claims: gpu.Deliver == deliverDRA, Reserve: placement.DefaultReserve(), Clock: clock, Logger: log}
	if gpu.RedisURL != "" {
		redis, err := redislink.Parse(gpu.RedisURL)
		if err != nil {
			return nil, err
		}
		if c.measured, err = redismeasured.NewView(redismeasured.ViewConfig{Redis: redis, Clock: clock, Logger: log, Registerer: registry}); err != nil {
			return nil, err
		}
		view.Measured = c.measured.Card
	}
	c.nodes = nodeview.New(view)
	return c, nil
}

func (c *clusterCards) run(ctx context.Context) {
	if c.measured != nil {
		go c.measured.Run(ctx)
	}
	c.nodes.Run(ctx)
}

// Nodes implements api.Fleet.
func (c *clusterCards) Nodes(context.Context) ([]openapi.Node, error) {
	nodes, err := c.nodes.Nodes()
	if err != nil {
		return nil, fmt.Errorf("list the cluster's nodes: %w", err)
	}
	out := make([]openapi.Node, 0, len(nodes))
	for _, n := range nodes {
		node := openapi.Node{Node: n.Name, Simulated: n.Simulated(), LargestFragmentMiB: n.LargestFragmentMiB, Cards: []openapi.Card{}}
		for _, card := range n.Cards {
			node.Cards = append(node.Cards, clusterCardWire(card))
		}
		out = append(out, node)
	}
	return out, nil
}

func clusterCardWire(c nodeview.Card) openapi.Card {
	card := openapi.Card{
		Uuid: c.UUID, Index: c.Index, Model: c.Model, Simulated: c.Simulated, TotalMiB: c.TotalMiB,
		ReservedMiB: c.ReservedMiB, AllocatedMiB: c.AllocatedMiB, FreeMiB: c.FreeMiB, UnaccountedMiB: c.UnaccountedMiB, Healthy: c.Healthy,
		Isolation: openapi.CardIsolation(c.Isolation), Allocations: []openapi.Allocation{},
	}
	if c.Measured {
		used, age := c.UsedMiB, c.Age.Seconds()
		card.MeasuredMiB, card.MeasuredAgeSeconds = &used, &age
	}
	for _, a := range c.Allocations {
		card.Allocations = append(card.Allocations, openapi.Allocation{Uid: a.UID, Tenant: a.Tenant, RequestId: a.ID, Mib: a.MiB})
	}
	return card
}

// Of implements kube.Cards.
func (c *clusterCards) Of(pod *corev1.Pod) []delivery.Card {
	var out []delivery.Card
	for _, g := range c.nodes.Of(pod) {
		out = append(out, delivery.Card{UUID: g.UUID, Index: g.Index, Model: g.Model, Simulated: g.Simulated, MiB: g.MiB, Isolation: string(g.Isolation)})
	}
	return out
}

// Shortfall implements kube.Cards.
func (c *clusterCards) Shortfall(mib int64, cards int) string {
	return c.nodes.Shortfall(placement.Request{MiB: mib, Cards: cards})
}

// spare reports whether one more replica would fit now.
func (c *clusterCards) spare(m *v1alpha1.ModelService) bool {
	return c.nodes.Fits(placement.Request{MiB: m.Spec.GPU.MemoryMiB, Cards: int(max(1, m.Spec.GPU.Count))})
}

// scalerCards are the cards of the cluster as a scaler sees them. What buffers
// hold is free to whoever has callers: they are displaced at once.
func (c *clusterCards) scalerCards(context.Context) ([]scaler.Card, error) {
	nodes, err := c.nodes.Nodes()
	if err != nil {
		return nil, fmt.Errorf("list the cluster's nodes: %w", err)
	}
	out := []scaler.Card{}
	for _, n := range nodes {
		for _, card := range n.Cards {
			if !card.Healthy {
				continue
			}
			s := scaler.Card{UUID: card.UUID, Node: n.Name, TotalMiB: card.TotalMiB, FreeMiB: card.FreeMiB}
			if card.Measured && card.Age <= placement.MeasuredFor {
				s.MeasuredMiB = card.UsedMiB
			}
			for _, a := range card.Allocations {
				if a.Buffer != "" {
					s.FreeMiB += a.MiB
					continue
				}
				s.Holders = append(s.Holders, scaler.Holder{Replica: a.UID, MiB: a.MiB})
			}
			out = append(out, s)
		}
	}
	return out, nil
}
