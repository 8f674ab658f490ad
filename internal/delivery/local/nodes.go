package local

import (
	"context"
	"fmt"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/device"
	"modeldock.io/internal/placement"
)

// refreshEvery is how often real cards are asked for health and used memory.
const refreshEvery = 15 * time.Second

// Node is this machine with its cards and who holds them.
type Node struct {
	Name               string
	Simulated          bool
	Cards              []NodeCard
	LargestFragmentMiB int64
}

// NodeCard is one card and its allocations. Sizes are MiB.
type NodeCard struct {
	device.Card
	ReservedMiB    int64
	AllocatedMiB   int64
	UnaccountedMiB int64
	FreeMiB        int64
	Allocations    []Allocation
}

// Allocation is what one replica holds of a card.
type Allocation struct {
	UID string // of the replica
	Ref budget.Ref
	MiB int64
}

// Nodes describes the one node of this target.
func (t *Target) Nodes() ([]Node, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := Node{Name: t.cfg.Node, Simulated: t.cfg.Inventory.Simulated}
	held, owners := t.allocations()
	view, err := placement.NewView(t.placementNode(), held)
	if err != nil {
		return nil, fmt.Errorf("compute free memory: %w", err)
	}
	states := map[string]placement.CardState{}
	for c := range view.Cards() {
		states[c.UUID] = c
	}
	for _, c := range t.cards {
		s := states[c.UUID]
		v := NodeCard{Card: c, ReservedMiB: s.ReservedMiB, UnaccountedMiB: s.UnaccountedMiB, FreeMiB: s.FreeMiB}
		for _, a := range held {
			if a.Card == c.UUID {
				v.AllocatedMiB += a.MiB
				v.Allocations = append(v.Allocations, Allocation{UID: a.Owner, Ref: owners[a.Owner], MiB: a.MiB})
			}
		}
		n.LargestFragmentMiB = max(n.LargestFragmentMiB, v.FreeMiB)
		n.Cards = append(n.Cards, v)
	}
	return []Node{n}, nil
}

// Fit answers where a request would go now, without placing it.
func (t *Target) Fit(r placement.Request) (placement.Decision, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	held, _ := t.allocations()
	return placement.Place([]placement.Node{t.placementNode()}, held, r, nil)
}

// placementNode and the rest of this file are called under the lock.
func (t *Target) placementNode() placement.Node {
	held, _ := t.allocations()
	n := placement.Node{Name: t.cfg.Node}
	for _, c := range t.cards {
		card := placement.Card{UUID: c.UUID, Index: c.Index, Model: c.Model, TotalMiB: c.Total, ReservedMiB: t.cfg.Reserve.Of(c.Total), Healthy: c.Healthy}
		unaccounted := c.Used - card.ReservedMiB
		for _, a := range held {
			if a.Card == c.UUID {
				unaccounted -= a.MiB
			}
		}
		card.UnaccountedMiB = max(0, unaccounted)
		n.Cards = append(n.Cards, card)
	}
	return n
}

func (t *Target) allocations() ([]placement.Allocation, map[string]budget.Ref) {
	var held []placement.Allocation
	owners := map[string]budget.Ref{}
	for _, o := range t.objects {
		for _, s := range o.slots {
			if s.run != nil {
				held = append(held, s.run.allocations()...)
				owners[s.run.uid] = o.rec.ref()
			}
		}
	}
	return held, owners
}

// take turns a decision into a replica's cards.
func (t *Target) take(chosen []placement.Chosen, mib int64) []delivery.Card {
	var out []delivery.Card
	for _, c := range chosen {
		for _, have := range t.cards {
			if have.UUID == c.UUID {
				out = append(out, delivery.Card{
					UUID: c.UUID, Index: have.Index, Model: have.Model, Simulated: t.cfg.Inventory.Simulated, MiB: mib, FreeMiB: c.FreeMiB,
				})
			}
		}
	}
	return out
}

// followCards keeps health and used memory of real cards current. When they
// cannot be read the last known figures stay.
func (t *Target) followCards(ctx context.Context) {
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		cards, err := t.cfg.Inventory.Refresh(ctx)
		if err != nil {
			t.log.Warn("cannot read the cards; their last known state is used", "err", err)
			continue
		}
		t.update(func() { t.cards = cards })
	}
}
