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
	cost int64 // MiB × weights: growth of the expected unusable memory, and a share of what is left
	left int64 // free memory that is left on the chosen cards
}

func (a rank) before(b rank) bool {
	if a.cost != b.cost {
		return a.cost < b.cost
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
	used, whole := v.tightness(r, seen)
	constrained := !r.Only.empty() || !r.Not.empty()
	for i := range v.spaces {
		s := &v.spaces[i]
		if s.free < r.MiB || constrained && !r.allows(&v.cards[i]) {
			continue
		}
		left := s.free - r.MiB
		tightness := used
		if s.whole {
			tightness = whole
		}
		c := candidate{rank: rank{cost: seen.unusable(left) - seen.unusable(s.free) + tightness*left, left: left}, card: i}
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

// What a MiB that is left on the card counts, against one MiB × weights that
// is expected to be lost: the share of best fit in the choice. bench/placement
// is where these were found.
const (
	loose   = 0
	usually = weights * 3 / 5
	tight   = weights
)

// tightness is that share for cards that are used already and for those that
// nobody uses. Batch work fills the tightest hole. A large language model that
// answers people has a card to itself as long as more than two thirds of the node's
// cards are whole, unless models that need several cards are about: they miss
// whole cards first. All others, recommenders foremost, pack.
func (v *View) tightness(r *Request, seen *Sizes) (used, whole int64) {
	several := r.Cards > 1 || seen != nil && seen.several
	switch {
	case r.Workload == modelspec.WorkloadBatch:
		return tight, tight
	case r.Class == modelspec.ClassLLM && !several && v.whole*3 > 2*len(v.cards):
		return usually, loose
	}
	return usually, usually
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
	const leftBits, costBits = 27, 35
	cost := min(max(c.rank.cost>>weightBits, -1<<costBits), 1<<costBits) // rounded down, also below zero
	return cost<<leftBits + min(c.rank.left, 1<<leftBits-1)
}
