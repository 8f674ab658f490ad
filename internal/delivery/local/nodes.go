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

// refreshEvery is how often real cards are asked for health and used memory: a
// measurement is believed for placement.MeasuredFor.
const refreshEvery = 2 * time.Second

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
	UnaccountedMiB int64 // measured, but held by no replica; it counts as taken
	FreeMiB        int64
	Measured       bool          // false for a simulated card: there is nothing to measure
	MeasuredAge    time.Duration // above placement.MeasuredFor it is not counted
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
		if sample, measured := t.samples[c.UUID]; measured {
			v.Measured, v.MeasuredAge = true, t.now().Sub(sample.At)
		}
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

// placementNode and the rest of this file but followCards are called under the
// lock.
func (t *Target) placementNode() placement.Node {
	n := placement.Node{Name: t.cfg.Node}
	for _, c := range t.cards {
		card := placement.Card{UUID: c.UUID, Index: c.Index, Model: c.Model, TotalMiB: c.Total, ReservedMiB: t.cfg.Reserve.Of(c.Total), Healthy: c.Healthy}
		if s, measured := t.samples[c.UUID]; measured {
			card.UnaccountedMiB, card.Stale, _ = s.Unaccounted(card.ReservedMiB, t.now()) // checked when it was taken
		}
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

// heldByCard is what replicas hold, by card.
func (t *Target) heldByCard() map[string]int64 {
	held, _ := t.allocations()
	sums := map[string]int64{}
	for _, a := range held {
		sums[a.Card] += a.MiB
	}
	return sums
}

// followCards keeps health and used memory of real cards current. When they
// cannot be read the last known health stays; used memory is soon too old.
func (t *Target) followCards(ctx context.Context) {
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for failing := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := t.measure(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			t.log.Warn("cannot read the cards; their last known health is used, and what others use of them is not seen", "err", err)
		}
		failing = err != nil
	}
}

// measure reads the cards once.
func (t *Target) measure(ctx context.Context) error {
	t.mu.Lock()
	before := t.heldByCard()
	t.mu.Unlock()
	at := t.now()
	cards, err := t.cfg.Inventory.Refresh(ctx)
	if err != nil {
		return err
	}
	samples := map[string]placement.Sample{}
	for _, c := range cards {
		s := placement.Sample{UsedMiB: c.Used, AllocatedMiB: before[c.UUID], At: at}
		if _, _, err := s.Unaccounted(0, at); err != nil {
			return fmt.Errorf("card %s: %w", c.UUID, err)
		}
		samples[c.UUID] = s
	}
	t.update(func() {
		// A replica that came or went meanwhile is in one of both sums, and
		// its memory is nobody else's in either case.
		for card, mib := range t.heldByCard() {
			if s, measured := samples[card]; measured {
				s.AllocatedMiB = max(s.AllocatedMiB, mib)
				samples[card] = s
			}
		}
		t.cards, t.samples = cards, samples
	})
	return nil
}
