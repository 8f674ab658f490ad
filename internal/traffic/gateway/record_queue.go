package gateway

import (
	"slices"
	"sync"

	"modeldock.io/internal/traffic"
)

// recordQueue is a bounded queue that can be searched. Every tenant has a line
// of its own in it: they are taken by turns, and where there is no more room
// the longest loses. What was taken stays findable until it is stored.
type recordQueue struct {
	mu      sync.Mutex
	lines   map[string]*recordLine // by tenant; none is empty
	turns   []*recordLine          // the same, in the order in which they are taken from
	next    int
	length  int                 // of all lines
	taken   []traffic.Inference // being stored
	dropped uint64              // for others
	closed  bool
}

// recordLine is one tenant's records, the oldest first.
type recordLine struct {
	tenant  string
	records []traffic.Inference
}

// push appends a record and returns the new length; 0 if there is no room for
// it or no more is taken. Another tenant's record may have to go for it.
func (q *recordQueue) push(i traffic.Inference) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return 0
	}
	own := q.lines[i.Tenant]
	if q.length == queueLength {
		longest := q.longest()
		if own != nil && len(own.records) >= len(longest.records) {
			return 0
		}
		longest.records = longest.records[1:] // never the last one: others have fewer
		q.length--
		q.dropped++
	}
	if own == nil {
		own = &recordLine{tenant: i.Tenant}
		if q.lines == nil {
			q.lines = map[string]*recordLine{}
		}
		q.lines[i.Tenant] = own
		q.turns = append(q.turns, own)
	}
	own.records = append(own.records, i)
	q.length++
	return q.length
}

func (q *recordQueue) longest() *recordLine {
	longest := q.turns[0]
	for _, l := range q.turns {
		if len(l.records) > len(longest.records) {
			longest = l
		}
	}
	return longest
}

// close ends the taking of records.
func (q *recordQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// lost is how many records had to go for others.
func (q *recordQueue) lost() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

func (q *recordQueue) state() (length int, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.length, q.closed
}

// take moves up to most records out, one of each tenant in turn; the result is
// valid until stored.
func (q *recordQueue) take(most int) []traffic.Inference {
	q.mu.Lock()
	defer q.mu.Unlock()
	for ; len(q.taken) < most && q.length > 0; q.length-- {
		q.next %= len(q.turns)
		l := q.turns[q.next]
		q.taken = append(q.taken, l.records[0])
		l.records[0] = traffic.Inference{} // lets go of its strings
		l.records = l.records[1:]
		if len(l.records) > 0 {
			q.next++
			continue
		}
		delete(q.lines, l.tenant)
		q.turns = append(q.turns[:q.next], q.turns[q.next+1:]...)
	}
	return q.taken
}

// stored tells that what was taken can be found elsewhere, or was given up.
func (q *recordQueue) stored() {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.taken)
	q.taken = q.taken[:0]
}

// find returns the latest record of a request.
func (q *recordQueue) find(requestID string) (traffic.Inference, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.turns {
		if i, ok := latest(l.records, requestID); ok {
			return i, true
		}
	}
	return latest(q.taken, requestID)
}

// has tells whether such a record is queued or being stored.
func (q *recordQueue) has(such func(traffic.Inference) bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.turns {
		if slices.ContainsFunc(l.records, such) {
			return true
		}
	}
	return slices.ContainsFunc(q.taken, such)
}

func latest(records []traffic.Inference, requestID string) (traffic.Inference, bool) {
	for n := len(records) - 1; n >= 0; n-- {
		if records[n].RequestID == requestID {
			return records[n], true
		}
	}
	return traffic.Inference{}, false
}
