package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Decision is where a request goes, or why it goes nowhere. Exactly one of
// Cards and Reason is set.
type Decision struct {
	Node   string
	Cards  []Chosen
	Reason string // with figures, for example "largest fragment 3812 MiB < 4096 MiB on node gpu-3 (…)"
}

// Fits reports whether a place was found.
func (d Decision) Fits() bool { return len(d.Cards) > 0 }

// Place chooses cards for r by best fit: of all cards that can hold it, those
// that are left with the least. Several cards are taken on one node, all or
// none. Ties go to the smaller uuid, so that the same input always gives the
// same answer.
//
// An error means that the input is wrong; it is never taken for "does not fit".
func Place(nodes []Node, allocations []Allocation, r Request) (Decision, error) {
	if r.MiB <= 0 || r.MiB > maxMiB || r.Cards <= 0 {
		return Decision{}, fmt.Errorf("a request of %d MiB on %d cards cannot be placed: both must be positive, and at most %d MiB", r.MiB, r.Cards, maxMiB)
	}
	free, err := Free(nodes, allocations)
	if err != nil {
		return Decision{}, fmt.Errorf("compute free memory: %w", err)
	}
	var best Decision
	for _, n := range nodes {
		if cards := bestFit(n, free, r); cards != nil && (!best.Fits() || tighter(cards, best.Cards)) {
			best = Decision{Node: n.Name, Cards: cards}
		}
	}
	if best.Fits() {
		return best, nil
	}
	return Decision{Reason: whyNot(nodes, free, r)}, nil
}

func bestFit(n Node, free map[string]int64, r Request) []Chosen {
	var able []Chosen
	for _, c := range n.Cards {
		if c.Healthy && free[c.UUID] >= r.MiB {
			able = append(able, Chosen{UUID: c.UUID, FreeMiB: free[c.UUID]})
		}
	}
	if len(able) < r.Cards {
		return nil
	}
	slices.SortFunc(able, tightestFirst)
	return able[:r.Cards:r.Cards]
}

func tightestFirst(a, b Chosen) int {
	return cmp.Or(cmp.Compare(a.FreeMiB, b.FreeMiB), strings.Compare(a.UUID, b.UUID))
}

// tighter compares the choices of two nodes card by card.
func tighter(a, b []Chosen) bool { return slices.CompareFunc(a, b, tightestFirst) < 0 }

// whyNot names the node that came closest, with the figures to check it by.
func whyNot(nodes []Node, free map[string]int64, r Request) string {
	type standing struct {
		node            Node
		able            int
		largest, total  int64
		healthy, hidden int
	}
	var closest *standing
	for _, n := range nodes {
		s := standing{node: n}
		for _, c := range n.Cards {
			if !c.Healthy {
				s.hidden++
				continue
			}
			s.healthy++
			f := free[c.UUID]
			s.total += f
			s.largest = max(s.largest, f)
			if f >= r.MiB {
				s.able++
			}
		}
		if closest == nil || cmp.Or(cmp.Compare(s.able, closest.able), cmp.Compare(s.largest, closest.largest)) > 0 {
			closest = &s
		}
	}
	if closest == nil || closest.healthy+closest.hidden == 0 {
		return fmt.Sprintf("there is no card: %d MiB on %s cannot be placed", r.MiB, counted(r.Cards, "card"))
	}
	figures := fmt.Sprintf("on node %s (%s, %d MiB free in total", closest.node.Name, counted(closest.healthy, "card"), closest.total)
	if closest.hidden > 0 {
		figures += fmt.Sprintf(", %d more unhealthy", closest.hidden)
	}
	figures += ")"
	if r.Cards > 1 {
		return fmt.Sprintf("%s with a fragment of %d MiB; %d are needed %s, largest fragment %d MiB",
			counted(closest.able, "card"), r.MiB, r.Cards, figures, closest.largest)
	}
	return fmt.Sprintf("largest fragment %d MiB < %d MiB %s", closest.largest, r.MiB, figures)
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
