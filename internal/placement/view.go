package placement

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
)

// View is what one node has free. It is made once and then only read, or kept
// up to date by Take and Give; it is not safe for concurrent changes.
type View struct {
	Name    string
	cards   []cardView // by uuid, so that of equals the first one is taken
	spaces  []space    // of the same cards: all that most of a search reads
	whole   int        // cards that nobody uses
	largest int64      // fragment
}

type cardView struct {
	Card
	room int64 // total − reserve − unaccounted − allocations; negative where overfull
	held int64 // allocations
}

// space is what a request may take of a card.
type space struct {
	free  int64 // never negative, 0 if unhealthy
	whole bool  // nobody uses it
}

// CardState is what is known of one card.
type CardState struct {
	Card
	AllocatedMiB int64
	FreeMiB      int64 // never negative; 0 for an unhealthy card
}

// NewView computes what n has free: per card total − reserve − allocations −
// what is measured but accounted to nobody. Allocations on other cards are left
// out; a figure out of range, or a card that is listed twice, is an error.
func NewView(n Node, held []Allocation) (*View, error) {
	v := &View{Name: n.Name, cards: make([]cardView, len(n.Cards)), spaces: make([]space, len(n.Cards))}
	for i, c := range n.Cards {
		if err := checkCard(c); err != nil {
			return nil, fmt.Errorf("node %s: %w", n.Name, err)
		}
		v.cards[i] = cardView{Card: c, room: c.TotalMiB - c.ReservedMiB - c.UnaccountedMiB}
	}
	slices.SortFunc(v.cards, func(a, b cardView) int { return strings.Compare(a.UUID, b.UUID) })
	for i := range v.cards {
		if i > 0 && v.cards[i].UUID == v.cards[i-1].UUID {
			return nil, fmt.Errorf("node %s: card %s is listed twice", n.Name, v.cards[i].UUID)
		}
		v.settle(i)
	}
	for _, a := range held {
		if err := v.Take(a.Card, a.MiB); err != nil {
			return nil, fmt.Errorf("allocation of %s: %w", a.Owner, err)
		}
	}
	return v, nil
}

func checkCard(c Card) error {
	switch {
	case c.UUID == "":
		return fmt.Errorf("a card of %d MiB has no uuid", c.TotalMiB)
	case c.TotalMiB <= 0 || c.TotalMiB > maxMiB:
		return fmt.Errorf("card %s has %d MiB; it must be from 1 to %d", c.UUID, c.TotalMiB, maxMiB)
	case c.ReservedMiB < 0 || c.ReservedMiB > maxMiB || c.UnaccountedMiB < 0 || c.UnaccountedMiB > maxMiB:
		return fmt.Errorf("card %s keeps %d MiB back and %d MiB are unaccounted; both must be from 0 to %d", c.UUID, c.ReservedMiB, c.UnaccountedMiB, maxMiB)
	}
	return nil
}

// Take counts mib as allocated on a card. It does not ask whether they are
// free: what runs is counted, fitting or not. An unknown card is no error; it
// left the inventory and has nothing to give.
func (v *View) Take(card string, mib int64) error { return v.change(card, mib, 1) }

// Give counts mib as allocated no more.
func (v *View) Give(card string, mib int64) error { return v.change(card, mib, -1) }

func (v *View) change(card string, mib, sign int64) error {
	if mib <= 0 || mib > maxMiB {
		return fmt.Errorf("%d MiB on card %s: memory must be from 1 to %d MiB", mib, card, maxMiB)
	}
	i, known := v.find(card)
	if !known {
		return nil
	}
	c := &v.cards[i]
	held, room := c.held+sign*mib, c.room-sign*mib
	if held < 0 || held > math.MaxInt64/4 {
		return fmt.Errorf("%d MiB on card %s: %d MiB are allocated there, and both cannot be", sign*mib, card, c.held)
	}
	c.held, c.room = held, room
	v.settle(i)
	return nil
}

// settle derives what a search reads of a card.
func (v *View) settle(i int) {
	c, old, now := &v.cards[i], v.spaces[i], space{}
	if c.Healthy {
		now.free = max(0, c.room)
	}
	now.whole = now.free > 0 && c.held == 0 && c.UnaccountedMiB == 0
	v.spaces[i] = now
	if old.whole {
		v.whole--
	}
	if now.whole {
		v.whole++
	}
	v.largest = max(v.largest, now.free)
	if old.free == v.largest && now.free < old.free {
		v.largest = 0
		for _, s := range v.spaces {
			v.largest = max(v.largest, s.free)
		}
	}
}

func (v *View) find(card string) (int, bool) {
	return slices.BinarySearchFunc(v.cards, card, func(c cardView, uuid string) int { return strings.Compare(c.UUID, uuid) })
}

// Clone returns a view that changes independently, to simulate on.
func (v *View) Clone() *View {
	w := *v
	w.cards, w.spaces = slices.Clone(v.cards), slices.Clone(v.spaces)
	return &w
}

// Cards lists the cards by uuid.
func (v *View) Cards() iter.Seq[CardState] {
	return func(yield func(CardState) bool) {
		for i, c := range v.cards {
			if !yield(CardState{Card: c.Card, AllocatedMiB: c.held, FreeMiB: v.spaces[i].free}) {
				return
			}
		}
	}
}

// FreeMiB is the sum over all healthy cards.
func (v *View) FreeMiB() (total int64) {
	for _, s := range v.spaces {
		total += s.free
	}
	return total
}

// LargestMiB is the largest fragment: the most that one request can get on one card.
func (v *View) LargestMiB() int64 { return v.largest }

// FragmentedMiB is the free memory that a request of the sizes seen lately is
// expected not to be able to use.
func (v *View) FragmentedMiB(seen *Sizes) int64 {
	var unusable int64
	for _, s := range v.spaces {
		unusable += seen.unusable(s.free) / sizeWeight
	}
	return unusable
}
