package placement

import (
	"cmp"
	"slices"
	"strings"

	"modeldock.io/internal/modelspec"
)

// Choice is what a request would take of one node.
type Choice struct {
	Node  string
	Cards []Chosen // the best first
	rank  rank     // of all cards together
}

// rank orders choices: smaller is better, member by member.
type rank struct {
	cost int64 // growth of the expected unusable memory, MiB × sizeWeight; negative where it shrinks
	odd  int64 // cards that are not what the class prefers
	left int64 // free memory that is left on the chosen cards
}

func (a rank) compare(b rank) int {
	if a.cost != b.cost {
		return cmp.Compare(a.cost, b.cost)
	}
	return cmp.Or(cmp.Compare(a.odd, b.odd), cmp.Compare(a.left, b.left))
}

// Fit chooses cards of v for r, all or none. They are appended to buf, which
// may be nil; with enough room in it nothing is allocated. Where it is false,
// Shortfall says why. seen may be nil. It only reads v, and a request that
// Check refuses fits nowhere.
func (v *View) Fit(r *Request, seen *Sizes, buf []Chosen) (Choice, bool) {
	if r.Check() != nil {
		return Choice{}, false
	}
	choice := Choice{Node: v.Name, Cards: buf}
	after, last := rank{}, -1
	for n := range r.Cards {
		best, at, able := v.next(r, seen, after, last)
		if able < r.Cards-n { // all or none, known after the first look
			return Choice{}, false
		}
		c := &v.cards[at]
		choice.Cards = append(choice.Cards, Chosen{UUID: c.UUID, Index: c.Index, FreeMiB: c.free})
		choice.rank.cost += best.cost
		choice.rank.odd += best.odd
		choice.rank.left += best.left
		after, last = best, at
	}
	return choice, true
}

// next is the best card that comes after the one at last, whose rank is after,
// and how many there are to choose from. The cards of a request are few: to
// look once for each keeps it free of scratch memory.
func (v *View) next(r *Request, seen *Sizes, after rank, last int) (best rank, at, able int) {
	at = -1
	whole, cares := v.prefers(r)
	constrained := !r.Only.empty() || !r.Not.empty()
	for i := range v.cards {
		c := &v.cards[i]
		if c.free < r.MiB || constrained && !r.allows(c) {
			continue
		}
		left := c.free - r.MiB
		k := rank{cost: seen.unusable(left) - seen.unusable(c.free), left: left}
		if cares && c.whole != whole {
			k.odd = 1
		}
		if last >= 0 && cmp.Or(k.compare(after), cmp.Compare(i, last)) <= 0 {
			continue // taken already
		}
		able++
		if at < 0 || k.compare(best) < 0 {
			best, at = k, i
		}
	}
	return best, at, able
}

// prefers tells which of two equally good cards r's class takes: one that
// nobody uses (whole), or one that is used. A large language model that
// answers people has a card to itself where that strands nothing, but never
// the node's last whole one. Recommenders share. Batch work fills holes,
// which is what the ranks do by themselves.
func (v *View) prefers(r *Request) (whole, cares bool) {
	switch {
	case r.Workload == modelspec.WorkloadBatch:
		return false, false
	case r.Class == modelspec.ClassRecommender:
		return false, true
	case r.Class == modelspec.ClassLLM:
		return v.whole > r.Cards, true
	}
	return false, false
}

func (c Cards) empty() bool { return len(c.UUIDs) == 0 && len(c.Models) == 0 }

func (c Cards) has(card *cardView) bool {
	return slices.Contains(c.UUIDs, card.UUID) || slices.Contains(c.Models, card.Model)
}

func (r *Request) allows(c *cardView) bool {
	return (r.Only.empty() || r.Only.has(c)) && !r.Not.has(c)
}

// Compare orders choices of different nodes for one request, the better first.
// It is 0 only for the same cards.
func (c Choice) Compare(other Choice) int {
	if d := c.rank.compare(other.rank); d != 0 {
		return d
	}
	return slices.CompareFunc(c.Cards, other.Cards, func(a, b Chosen) int { return strings.Compare(a.UUID, b.UUID) })
}

// Rank is the choice's place as one number, for schedulers that compare
// numbers: smaller is better. It orders like Compare, except that less than a
// MiB of expected unusable memory, and uuids, make no difference.
func (c Choice) Rank() int64 {
	const leftBits, costBits = 26, 35
	cost := min(max(c.rank.cost/sizeWeight, -1<<costBits), 1<<costBits)
	left := min(c.rank.left, 1<<leftBits-1)
	return cost<<(leftBits+1) + min(c.rank.odd, 1)<<leftBits + left
}
