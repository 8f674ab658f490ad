package waitroom

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Outlook is what a waiting request can be told.
type Outlook struct {
	Position int           // 1 is next
	Pace     time.Duration // between two that are let in; 0: not known
}

// pace learns how fast places become free while somebody waits for them: how
// many did in how much time, where what is long ago counts less. Replicas free
// their places in bursts, so that single pauses between two say little.
type pace struct {
	last   time.Time
	served float64
	took   float64 // seconds
}

// paceMemory is the waiting time after which what was learnt counts 1/e.
const paceMemory = 30 * time.Second

// mean is the time between two that are let in; 0: not known.
func (p *pace) mean() time.Duration {
	if p.served < 1 {
		return 0
	}
	return time.Duration(p.took / p.served * float64(time.Second))
}

// letIn notes that one more was let in.
func (p *pace) letIn(now time.Time) {
	if !p.last.IsZero() {
		d := max(now.Sub(p.last), 0)
		fade := 1.0
		if d > 0 {
			fade = math.Exp(-d.Seconds() / paceMemory.Seconds())
		}
		p.served = p.served*fade + 1
		p.took = p.took*fade + d.Seconds()
	}
	p.last = now
}

// idle notes that nobody waits, so that the pause until the next one comes
// is no part of the pace.
func (p *pace) idle() { p.last = time.Time{} }

// positions foretells the order in which the line will be served if nobody
// comes and nobody leaves.
func (l *line) positions(now time.Time) map[*entry]int {
	type place struct {
		e   *entry
		tag int // the tenant's rank when its turn comes
		// round counts the tenant's turns at that rank: equals take turns.
		round int
		place uint64 // of its flow
	}
	places := make([]place, 0, l.len())
	weight := l.scale.weight(now)
	for i := range l.levels {
		for _, s := range l.levels[i] {
			f := s.flow
			tag, rankNow, round := *f.share, -1, 0
			for at := f.entries.Front(); at != nil; at = at.Next() {
				e := entryAt(at)
				if rank := tag.rank(); rank != rankNow {
					rankNow, round = rank, 0
				}
				places = append(places, place{e, rankNow, round, f.place()})
				round++
				tag.used += float64(e.tokens) * weight
			}
		}
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(b.e.class, a.e.class), cmp.Compare(a.tag, b.tag), cmp.Compare(a.round, b.round), cmp.Compare(a.place, b.place))
	})
	at := make(map[*entry]int, len(places))
	for i, p := range places {
		at[p.e] = i + 1
	}
	return at
}
