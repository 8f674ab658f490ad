package waitroom

import (
	"container/heap"
	"container/list"
	"time"
)

const (
	// promoteAfter is how long a flow may go without a turn before it counts
	// as starved.
	promoteAfter = 15 * time.Second
	// promoteEvery is how often the turn belongs to the longest starved flow,
	// if there is one, whatever its class and tenant.
	promoteEvery = 8
)

// entry is one request in line.
type entry struct {
	tenant string
	class  Class
	tokens int64 // what it is expected to use
	bytes  int64 // what it holds in memory
	seq    uint64
	since  time.Time

	flow   *flow // set while it is in line
	inFlow *list.Element
	owner  any // the ticket it belongs to
}

// flow is what one tenant has waiting in one class, by arrival.
type flow struct {
	tenant  string
	class   Class
	share   *share
	entries list.List
	index   int           // in its level's heap
	turn    time.Time     // its last one, or when it came
	last    uint64        // the line's count at its last turn; 0: it had none
	inTurns *list.Element // of line.turns
}

func (f *flow) head() *entry { return entryAt(f.entries.Front()) }

// place decides among tenants who used as much: arrival, where a tenant's next
// request counts as arriving when the one before had its turn. A tenant with
// many in line would otherwise be served until it has used noticeably more.
func (f *flow) place() uint64 { return max(f.head().seq, f.last) }

func entryAt(e *list.Element) *entry { return e.Value.(*entry) } //nolint:forcetypeassert // only entries are put in
func flowAt(e *list.Element) *flow   { return e.Value.(*flow) }  //nolint:forcetypeassert // only flows are put in

// line is the order in which the requests of one model are served. It is pure:
// no clock, no lock.
//
// First the class, then the tenant who used less of late (after the virtual
// token counter of Y. Sheng et al., Fairness in Serving Large Language Models,
// OSDI 2024, with use that is forgotten), then arrival or, for a tenant that
// was just served, its turn. Every so many turns a flow that had none for long
// comes first.
type line struct {
	levels [classes]level
	turns  list.List // of all flows, the one whose last turn is longest ago first
	shares map[string]*share
	scale  scale
	seq    uint64
	served uint64
	length int
}

func newLine(now time.Time) *line {
	return &line{shares: map[string]*share{}, scale: scale{base: now}}
}

func (l *line) len() int { return l.length }

// join puts a request at its place; its seq and flow are set here.
func (l *line) join(e *entry) {
	l.seq++
	e.seq = l.seq
	f := l.flowOf(e)
	e.inFlow = f.entries.PushBack(e)
	l.length++
	l.levels[e.class.level()].fix(f)
}

// rejoin puts back a request that was taken out for a moment.
func (l *line) rejoin(e *entry) {
	f := l.flowOf(e)
	at := f.entries.Front()
	for at != nil && entryAt(at).seq < e.seq {
		at = at.Next()
	}
	if at == nil {
		e.inFlow = f.entries.PushBack(e)
	} else {
		e.inFlow = f.entries.InsertBefore(e, at)
	}
	l.length++
	l.levels[e.class.level()].fix(f)
}

func (l *line) flowOf(e *entry) *flow {
	s := l.account(e.tenant)
	at := e.class.level()
	if s.flows[at] == nil {
		f := &flow{tenant: e.tenant, class: e.class, share: s, index: -1, turn: e.since}
		after := l.turns.Back() // almost always: a rejoining one came earlier
		for after != nil && flowAt(after).turn.After(f.turn) {
			after = after.Prev()
		}
		if after == nil {
			f.inTurns = l.turns.PushFront(f)
		} else {
			f.inTurns = l.turns.InsertAfter(f, after)
		}
		s.flows[at] = f
	}
	e.flow = s.flows[at]
	return e.flow
}

// leave takes a request out of line.
func (l *line) leave(e *entry) {
	l.remove(e)
	if e.flow.index >= 0 {
		l.levels[e.class.level()].fix(e.flow)
	}
}

// remove is leave without the last step: a flow that is not empty is left
// where it was.
func (l *line) remove(e *entry) {
	f := e.flow
	f.entries.Remove(e.inFlow)
	l.length--
	if f.entries.Len() == 0 {
		at := e.class.level()
		heap.Remove(&l.levels[at], f.index)
		l.turns.Remove(f.inTurns)
		f.share.flows[at] = nil
	}
}

// next is whose turn it is; nil if nobody waits.
func (l *line) next(now time.Time) *entry {
	if starved := l.turns.Front(); starved != nil && l.served%promoteEvery == promoteEvery-1 {
		if f := flowAt(starved); now.Sub(f.turn) > promoteAfter {
			return f.head()
		}
	}
	for i := range l.levels {
		if len(l.levels[i]) > 0 {
			return l.levels[i][0].flow.head()
		}
	}
	return nil
}

// serve takes out the one whose turn it is and charges its tenant.
func (l *line) serve(e *entry, now time.Time) {
	l.served++
	l.remove(e)
	if f := e.flow; f.index >= 0 {
		l.seq++
		f.turn, f.last = now, l.seq
		l.turns.MoveToBack(f.inTurns)
	}
	l.charge(e.tenant, e.tokens, now)
}

// oldest is when the one came who waits longest.
func (l *line) oldest() time.Time {
	var oldest time.Time
	for at := l.turns.Front(); at != nil; at = at.Next() {
		if since := flowAt(at).head().since; oldest.IsZero() || since.Before(oldest) {
			oldest = since
		}
	}
	return oldest
}

// yields is who has to make room for a newcomer in a full line: the latest
// request of a lower class, else of the tenant with the most waiting, if that
// leaves it with no fewer than the newcomer's tenant then has. nil: nobody.
func (l *line) yields(tenant string, class Class) *entry {
	for at := classes - 1; at >= class.level(); at-- {
		var longest *flow
		own := 0
		for _, s := range l.levels[at] {
			f := s.flow
			if longest == nil || f.entries.Len() > longest.entries.Len() {
				longest = f
			}
			if f.tenant == tenant {
				own = f.entries.Len()
			}
		}
		if longest == nil || at == class.level() && longest.entries.Len() < own+2 {
			continue
		}
		return entryAt(longest.entries.Back())
	}
	return nil
}

// level is the heap of one class's flows, by what their tenants used. What is
// compared stands in the heap itself, not behind pointers.
type level []slot

type slot struct {
	rank  int    // of the flow's share
	place uint64 // of the flow
	flow  *flow
}

func (h level) Len() int { return len(h) }

// Less implements heap.Interface.
func (h level) Less(i, j int) bool {
	if h[i].rank != h[j].rank {
		return h[i].rank < h[j].rank
	}
	return h[i].place < h[j].place
}

// Swap implements heap.Interface.
func (h level) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].flow.index, h[j].flow.index = i, j
}

// Push implements heap.Interface.
func (h *level) Push(x any) {
	f := x.(*flow) //nolint:forcetypeassert // only fix pushes
	f.index = len(*h)
	*h = append(*h, slot{f.share.rank(), f.place(), f})
}

// Pop implements heap.Interface.
func (h *level) Pop() any {
	old := *h
	f := old[len(old)-1].flow
	old[len(old)-1] = slot{}
	*h = old[:len(old)-1]
	f.index = -1
	return f
}

// fix puts a flow where it belongs after it changed or is new.
func (h *level) fix(f *flow) {
	if f.index < 0 {
		heap.Push(h, f)
		return
	}
	s := &(*h)[f.index]
	if rank, place := f.share.rank(), f.place(); s.rank != rank || s.place != place {
		s.rank, s.place = rank, place
		heap.Fix(h, f.index)
	}
}
