package main

import (
	"fmt"

	"modeldock.io/internal/placement"
)

// policies in the order of the columns.
func policies() []func([]placement.Node) (policy, error) {
	return []func([]placement.Node) (policy, error){newWhole, newTotal, newBestFit, newOurs}
}

// cluster is what the cards really hold, whatever a policy believes.
type cluster struct {
	views  []*placement.View
	placed map[string]taken
}

// taken is what one owner has.
type taken struct {
	node  int
	cards []placement.Chosen
	mib   int64
}

func newCluster(nodes []placement.Node) (*cluster, error) {
	c := &cluster{placed: map[string]taken{}}
	for _, n := range nodes {
		v, err := placement.NewView(n, nil)
		if err != nil {
			return nil, err
		}
		c.views = append(c.views, v)
	}
	return c, nil
}

// take counts mib on each chosen card; more than there is, is an error in the policy.
func (c *cluster) take(owner string, node int, cards []placement.Chosen, mib int64) error {
	for _, card := range cards {
		if card.FreeMiB < mib {
			return fmt.Errorf("card %s has %d MiB for %d", card.UUID, card.FreeMiB, mib)
		}
		if err := c.views[node].Take(card.UUID, mib); err != nil {
			return err
		}
	}
	c.placed[owner] = taken{node: node, cards: cards, mib: mib}
	return nil
}

func (c *cluster) leave(owner string) error {
	t, runs := c.placed[owner]
	if !runs {
		return nil
	}
	delete(c.placed, owner)
	for _, card := range t.cards {
		if err := c.views[t.node].Give(card.UUID, t.mib); err != nil {
			return err
		}
	}
	return nil
}

// choose places r by the core's own choice.
func (c *cluster) choose(owner string, r placement.Request, seen *placement.Sizes) (outcome, error) {
	d, err := placement.Choose(c.views, r, seen)
	if err != nil || !d.Fits() {
		return rejected, err
	}
	for i, v := range c.views {
		if v.Name == d.Node {
			return started, c.take(owner, i, d.Cards, r.MiB)
		}
	}
	return rejected, fmt.Errorf("unknown node %s", d.Node)
}

// bestFit takes the card that is left with the least.
type bestFit struct{ *cluster }

func newBestFit(nodes []placement.Node) (policy, error) {
	c, err := newCluster(nodes)
	return bestFit{c}, err
}

func (b bestFit) place(owner string, r placement.Request) (outcome, error) {
	r.Class, r.Workload = "", ""
	return b.choose(owner, r, nil) // with no sizes seen and no class, the tightest fit is all that counts
}

// ours also looks at the sizes seen lately and at the request's class.
type ours struct {
	*cluster
	recent placement.Recent
}

func newOurs(nodes []placement.Node) (policy, error) {
	c, err := newCluster(nodes)
	return &ours{cluster: c}, err
}

func (o *ours) place(owner string, r placement.Request) (outcome, error) {
	if err := o.recent.Saw(owner, r); err != nil {
		return rejected, err
	}
	return o.choose(owner, r, o.recent.Sizes())
}
