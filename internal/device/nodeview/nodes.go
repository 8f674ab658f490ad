package nodeview

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"modeldock.io/internal/placement"
	"modeldock.io/internal/placement/nodecards"
)

// Node is a node with its cards; sizes are MiB.
type Node struct {
	Name               string
	Cards              []Card
	LargestFragmentMiB int64
}

// Simulated reports whether all its cards are.
func (n Node) Simulated() bool {
	return len(n.Cards) > 0 && !slices.ContainsFunc(n.Cards, func(c Card) bool { return !c.Simulated })
}

// Card is a card and who holds it.
type Card struct {
	nodecards.Card
	ReservedMiB    int64
	AllocatedMiB   int64
	UnaccountedMiB int64 // measured, but held by nobody; it counts as taken
	FreeMiB        int64
	Measured       bool // UsedMiB and Age are known
	UsedMiB        int64
	Age            time.Duration // above placement.MeasuredFor it is not counted
	Allocations    []Allocation
}

// Nodes lists all nodes by name. It fails while the lists are not what the API
// server has.
func (c *Cluster) Nodes() ([]Node, error) {
	if err := c.current(); err != nil {
		return nil, err
	}
	var all []Node
	for _, node := range c.nodes.All() {
		n, err := c.node(node.Name)
		if err != nil {
			return nil, fmt.Errorf("compute what node %s has free: %w", node.Name, err)
		}
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func (c *Cluster) current() error {
	err := errors.Join(c.nodes.Current(), c.pods.Current())
	if c.claims != nil {
		err = errors.Join(err, c.claims.Current())
	}
	return err
}

func (c *Cluster) node(name string) (Node, error) {
	cards := c.cardsOf(name)
	view, held, err := c.view(name, cards)
	if err != nil {
		return Node{}, err
	}
	states := map[string]placement.CardState{}
	for s := range view.Cards() {
		states[s.UUID] = s
	}
	n := Node{Name: name, LargestFragmentMiB: view.LargestMiB()}
	for _, card := range cards {
		s := states[card.UUID]
		out := Card{Card: card, ReservedMiB: s.ReservedMiB, AllocatedMiB: s.AllocatedMiB, UnaccountedMiB: s.UnaccountedMiB, FreeMiB: s.FreeMiB}
		if c.cfg.Measured != nil {
			if sample, known := c.cfg.Measured(card.UUID); known && sample.Node == name {
				out.Measured, out.UsedMiB, out.Age = true, sample.UsedMiB, sample.Age
			}
		}
		for _, h := range held {
			if h.card == card.UUID {
				out.Allocations = append(out.Allocations, h.Allocation)
			}
		}
		slices.SortFunc(out.Allocations, func(a, b Allocation) int {
			return cmp.Or(strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.ID, b.ID), strings.Compare(a.UID, b.UID))
		})
		n.Cards = append(n.Cards, out)
	}
	return n, nil
}

// view is the core's view of a node, and what it was made from.
func (c *Cluster) view(name string, cards []nodecards.Card) (*placement.View, []held, error) {
	node := placement.Node{Name: name}
	now := c.cfg.Clock()
	for _, card := range cards {
		p := placement.Card{UUID: card.UUID, Index: card.Index, Model: card.Model, TotalMiB: card.TotalMiB, ReservedMiB: c.cfg.Reserve.Of(card.TotalMiB), Healthy: card.Healthy}
		if sample, known := c.sample(name, card.UUID, now); known {
			var err error
			if p.UnaccountedMiB, p.Stale, err = sample.Unaccounted(p.ReservedMiB, now); err != nil {
				return nil, nil, fmt.Errorf("card %s: %w", card.UUID, err)
			}
		}
		node.Cards = append(node.Cards, p)
	}
	view, err := placement.NewView(node, nil)
	if err != nil {
		return nil, nil, err
	}
	held := c.held(name, cards)
	for _, h := range held {
		if err := view.Take(h.card, h.MiB); err != nil {
			return nil, nil, err
		}
	}
	return view, held, nil
}

// sample is what was measured of a card, with the accounts of its moment.
func (c *Cluster) sample(node, uuid string, now time.Time) (placement.Sample, bool) {
	if c.cfg.Measured == nil {
		return placement.Sample{}, false
	}
	m, known := c.cfg.Measured(uuid)
	if !known || m.Node != node {
		return placement.Sample{}, false
	}
	at := now.Add(-m.Age)
	c.mu.Lock()
	defer c.mu.Unlock()
	allocated, noted := c.accounts.Since(uuid, at)
	return placement.Sample{UsedMiB: m.UsedMiB, AllocatedMiB: allocated, At: at}, noted
}

// Shortfall says with figures why a request fits on no node now; empty: it
// would fit, or nothing is known.
func (c *Cluster) Shortfall(r placement.Request) string {
	decision, err := c.choose(r)
	if err != nil || decision.Fits() {
		return ""
	}
	return decision.Reason
}

// Fits reports whether a request would fit now; not, if that is not known.
func (c *Cluster) Fits(r placement.Request) bool {
	if c.current() != nil {
		return false
	}
	decision, err := c.choose(r)
	return err == nil && decision.Fits()
}

func (c *Cluster) choose(r placement.Request) (placement.Decision, error) {
	var views []*placement.View
	for _, node := range c.nodes.All() {
		cards := c.cardsOf(node.Name)
		if view, _, err := c.view(node.Name, cards); err == nil && len(cards) > 0 {
			views = append(views, view)
		}
	}
	return placement.Choose(views, r, nil)
}
