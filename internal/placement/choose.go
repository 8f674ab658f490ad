package placement

import "fmt"

// Decision is where a request goes, or why it goes nowhere. Exactly one of
// Cards and Reason is set.
type Decision struct {
	Node   string
	Cards  []Chosen
	Reason string // with figures, for example "largest fragment 3812 MiB < 4096 MiB on node gpu-3 (…)"
}

// Fits reports whether a place was found.
func (d Decision) Fits() bool { return len(d.Cards) > 0 }

// Choose chooses the best node and its cards. The same input always gives the
// same answer, in whatever order nodes, cards and allocations are listed.
//
// An error means that the input is wrong; it is never taken for "does not fit".
func Choose(views []*View, r Request, seen *Sizes) (Decision, error) {
	if err := r.Check(); err != nil {
		return Decision{}, err
	}
	var best Choice
	var buf, spare []Chosen // two buffers for all nodes, not one for each
	for _, v := range views {
		choice, fits := v.Fit(&r, seen, buf[:0])
		if !fits {
			continue
		}
		if best.Cards == nil || choice.Compare(best) < 0 {
			spare, best = best.Cards, choice
			buf = spare
		} else {
			buf = choice.Cards
		}
	}
	if best.Cards != nil {
		return Decision{Node: best.Node, Cards: best.Cards}, nil
	}
	return Decision{Reason: whyNot(views, &r)}, nil
}

// Place is Choose for nodes and allocations as they are listed.
func Place(nodes []Node, held []Allocation, r Request, seen *Sizes) (Decision, error) {
	views := make([]*View, 0, len(nodes))
	on := map[string]int{}
	for i, n := range nodes {
		for _, c := range n.Cards {
			if other, twice := on[c.UUID]; twice && other != i {
				return Decision{}, fmt.Errorf("card %s is listed twice, on nodes %s and %s", c.UUID, nodes[other].Name, n.Name)
			}
			on[c.UUID] = i
		}
		v, err := NewView(n, held)
		if err != nil {
			return Decision{}, fmt.Errorf("compute free memory: %w", err)
		}
		views = append(views, v)
	}
	return Choose(views, r, seen)
}

// whyNot tells what keeps r from the node that comes closest.
func whyNot(views []*View, r *Request) string {
	closest := Shortfall{NeedMiB: r.MiB, NeedCards: r.Cards}
	for i, v := range views {
		if s := v.Shortfall(r); i == 0 || s.compare(closest) < 0 {
			closest = s
		}
	}
	reason := closest.String()
	if closest.cards() > 0 && len(views) > 1 {
		reason += fmt.Sprintf("; closest of %d nodes", len(views))
	}
	return reason
}
