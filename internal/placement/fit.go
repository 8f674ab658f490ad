package placement

import (
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

func (a rank) before(b rank) bool {
	if a.cost != b.cost {
		return a.cost < b.cost
	}
	if a.odd != b.odd {
		return a.odd < b.odd
	}
	return a.left < b.left
}

// Fit chooses cards of v for r, all or none. They are appended to buf, which
// may be nil; with enough room in it nothing is allocated. Where it is false,
// Shortfall says why. seen may be nil. It only reads v, and a request that
// Check refuses fits nowhere.
func (v *View) Fit(r *Request, seen *Sizes, buf []Chosen) (Choice, bool) {
	if r.Check() != nil {
		return Choice{}, false
	}
	if v.largest < r.MiB {
		return Choice{}, false
	}
	var few [8]candidate // most requests need no more, and this costs no allocation
	best := few[:0]
	if r.Cards > len(few) {
		best = make([]candidate, 0, r.Cards)
	}
	best = v.best(r, seen, best)
	if len(best) < r.Cards {
		return Choice{}, false
	}
	choice := Choice{Node: v.Name, Cards: buf}
	for _, b := range best {
		c := &v.cards[b.card]
		choice.Cards = append(choice.Cards, Chosen{UUID: c.UUID, Index: c.Index, FreeMiB: v.spaces[b.card].free})
		choice.rank.cost += b.cost
		choice.rank.odd += b.odd
		choice.rank.left += b.left
	}
	return choice, true
}

// candidate is a card that could be taken.
type candidate struct {
	rank
	card int // in View.cards
}

// best fills the given space with the best cards for r, the best first, as
// many as r asks for or as there are.
func (v *View) best(r *Request, seen *Sizes, best []candidate) []candidate {
	whole, cares := v.prefers(r)
	constrained := !r.Only.empty() || !r.Not.empty()
	for i := range v.spaces {
		s := &v.spaces[i]
		if s.free < r.MiB || constrained && !r.allows(&v.cards[i]) {
			continue
		}
		left := s.free - r.MiB
		c := candidate{rank: rank{cost: seen.unusable(left) - seen.unusable(s.free), left: left}, card: i}
		if cares && s.whole != whole {
			c.odd = 1
		}
		switch {
		case len(best) < r.Cards:
			best = append(best, c)
		case c.before(best[len(best)-1].rank):
			best[len(best)-1] = c
		default:
			continue
		}
		for j := len(best) - 1; j > 0 && best[j].before(best[j-1].rank); j-- {
			best[j], best[j-1] = best[j-1], best[j]
		}
	}
	return best
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
	switch {
	case c.rank.before(other.rank):
		return -1
	case other.rank.before(c.rank):
		return 1
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
