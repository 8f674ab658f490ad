package placement

import (
	"cmp"
	"fmt"
	"strings"
)

// Shortfall says with figures why a request does not fit on a node. It is a
// plain value; only String allocates.
type Shortfall struct {
	Node       string
	NeedMiB    int64 // asked for, per card
	NeedCards  int
	Able       int   // cards with enough free memory
	LargestMiB int64 // largest fragment of the cards that may be used
	FreeMiB    int64 // their free memory in total
	Usable     int   // cards that are healthy and not excluded
	Unhealthy  int
	Excluded   int // by the request
	Stale      int // usable cards whose measured use was too old to be counted
}

// Shortfall counts what v has for r. It means something where Fit is false.
func (v *View) Shortfall(r *Request) Shortfall {
	s := Shortfall{Node: v.Name, NeedMiB: r.MiB, NeedCards: r.Cards}
	for i := range v.cards {
		c := &v.cards[i]
		switch {
		case !c.Healthy:
			s.Unhealthy++
			continue
		case !r.allows(c):
			s.Excluded++
			continue
		}
		s.Usable++
		free := v.spaces[i].free
		s.FreeMiB += free
		s.LargestMiB = max(s.LargestMiB, free)
		if free >= r.MiB {
			s.Able++
		}
		if c.Stale {
			s.Stale++
		}
	}
	return s
}

func (s Shortfall) cards() int { return s.Usable + s.Unhealthy + s.Excluded }

// compare puts the node that came closest first.
func (s Shortfall) compare(other Shortfall) int {
	return cmp.Or(cmp.Compare(other.Able, s.Able), cmp.Compare(other.LargestMiB, s.LargestMiB),
		cmp.Compare(other.FreeMiB, s.FreeMiB), strings.Compare(s.Node, other.Node))
}

// String is the reason as people read it, for example "largest fragment 3812
// MiB < 4096 MiB on node gpu-3 (8 cards, 21 GiB free in total)".
func (s Shortfall) String() string {
	if s.cards() == 0 {
		where := "there is no card"
		if s.Node != "" {
			where = fmt.Sprintf("node %s has no card", s.Node)
		}
		return fmt.Sprintf("%s: %d MiB on %s cannot be placed", where, s.NeedMiB, counted(s.NeedCards, "card"))
	}
	figures := fmt.Sprintf("on node %s (%s, %s free in total", s.Node, counted(s.Usable, "card"), size(s.FreeMiB))
	if s.Unhealthy > 0 {
		figures += fmt.Sprintf(", %d more unhealthy", s.Unhealthy)
	}
	if s.Excluded > 0 {
		figures += fmt.Sprintf(", %d more excluded by the request", s.Excluded)
	}
	if s.Stale > 0 {
		figures += fmt.Sprintf(", measured use of %d ignored because it is older than %s", s.Stale, MeasuredFor)
	}
	figures += ")"
	if s.NeedCards > 1 {
		return fmt.Sprintf("%s with a fragment of %d MiB; %d are needed %s, largest fragment %d MiB",
			counted(s.Able, "card"), s.NeedMiB, s.NeedCards, figures, s.LargestMiB)
	}
	return fmt.Sprintf("largest fragment %d MiB < %d MiB %s", s.LargestMiB, s.NeedMiB, figures)
}

// size writes a total: exact where it is small, readable where it is large.
func size(mib int64) string {
	if mib < 10<<10 {
		return fmt.Sprintf("%d MiB", mib)
	}
	return strings.Replace(fmt.Sprintf("%d.%d GiB", mib>>10, mib&1023*10>>10), ".0 ", " ", 1)
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
