package gateway

import (
	"sync"

	"modeldock.io/internal/traffic"
)

// recordQueue is a bounded queue that can be searched. What was taken from it
// stays findable until it is stored.
type recordQueue struct {
	mu     sync.Mutex
	ring   [queueLength]traffic.Inference
	head   int // of the oldest record
	length int
	taken  []traffic.Inference // being stored
	closed bool
}

// push appends a record and returns the new length; 0 if there is no room or
// no more is taken.
func (q *recordQueue) push(i traffic.Inference) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.length == len(q.ring) {
		return 0
	}
	q.ring[(q.head+q.length)%len(q.ring)] = i
	q.length++
	return q.length
}

// close ends the taking of records.
func (q *recordQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

func (q *recordQueue) state() (length int, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.length, q.closed
}

// take moves up to most records out; the result is valid until stored.
func (q *recordQueue) take(most int) []traffic.Inference {
	q.mu.Lock()
	defer q.mu.Unlock()
	for ; len(q.taken) < most && q.length > 0; q.length-- {
		q.taken = append(q.taken, q.ring[q.head])
		q.ring[q.head] = traffic.Inference{} // lets go of its strings
		q.head = (q.head + 1) % len(q.ring)
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
	for n := q.length - 1; n >= 0; n-- {
		if i := &q.ring[(q.head+n)%len(q.ring)]; i.RequestID == requestID {
			return *i, true
		}
	}
	for n := len(q.taken) - 1; n >= 0; n-- {
		if i := &q.taken[n]; i.RequestID == requestID {
			return *i, true
		}
	}
	return traffic.Inference{}, false
}
