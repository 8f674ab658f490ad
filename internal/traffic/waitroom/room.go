// Package waitroom is where the traffic account lets requests wait for a model
// that has no ready replica: bounded in number and in time, first come first
// served, and woken when a place may be free or when there is no hope left.
//
// The room itself knows neither endpoints nor HTTP. It is given a function
// that tries to take a place, and hands what it took to the head of the queue,
// so that a newcomer never overtakes those who wait.
package waitroom

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// ErrFull means that as many requests wait for the key as may.
var ErrFull = errors.New("waiting room is full")

// ErrTimeout means that no place became free in the time allowed.
var ErrTimeout = errors.New("waited too long")

// Limits bound one request's stay.
type Limits struct {
	MaxWaiting int           // requests of the key, this one included
	Timeout    time.Duration // zero: do not wait at all
	// Check is asked every CheckEvery while the request waits; its error ends
	// the wait. Notifications are hints, this is what they are backed by.
	Check      func() error
	CheckEvery time.Duration
}

// Room holds one queue per key K and hands out places G. All methods may be
// called concurrently.
type Room[K comparable, G any] struct {
	take  func(K) (G, bool)
	total atomic.Int64

	mu     sync.Mutex
	queues map[K]*list.List // of *ticket[G]
}

// ticket is one waiting request; its fields are guarded by the room's lock
// until settled is closed.
type ticket[G any] struct {
	settled chan struct{}
	done    bool
	place   G
	err     error
}

// New returns an empty room. take tries to get a place for a key without
// blocking; it is called with the room's lock held and must not call back.
func New[K comparable, G any](take func(K) (G, bool)) *Room[K, G] {
	return &Room[K, G]{take: take, queues: map[K]*list.List{}}
}

// Wait returns a place for key k: at once if nobody waits and one is free,
// otherwise in turn. It fails with ErrFull, ErrTimeout, the error that Fail or
// limits.Check gave, or the cause for which ctx ended.
func (r *Room[K, G]) Wait(ctx context.Context, k K, limits Limits) (G, error) {
	var none G
	place, tk, at, err := r.join(k, limits)
	if tk == nil {
		return place, err
	}
	timer := time.NewTimer(limits.Timeout)
	defer timer.Stop()
	var recheck <-chan time.Time
	if limits.Check != nil && limits.CheckEvery > 0 {
		ticker := time.NewTicker(limits.CheckEvery)
		defer ticker.Stop()
		recheck = ticker.C
	}
	for {
		var reason error
		select {
		case <-tk.settled:
			return tk.place, tk.err
		case <-recheck:
			if reason = limits.Check(); reason == nil {
				r.Wake(k) // a lost notification costs one interval, not the wait
				continue
			}
		case <-timer.C:
			reason = ErrTimeout
		case <-ctx.Done():
			reason = context.Cause(ctx)
		}
		if r.leave(k, tk, at) {
			return none, reason
		}
		// Settled at the same moment: what was handed over counts.
		return tk.place, tk.err
	}
}

// join takes a place at once or enters the queue; the ticket is nil unless the
// request has to wait.
func (r *Room[K, G]) join(k K, limits Limits) (G, *ticket[G], *list.Element, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var none G
	q := r.queues[k]
	if q == nil {
		if place, ok := r.take(k); ok {
			return place, nil, nil, nil
		}
	}
	switch {
	case limits.Timeout <= 0:
		return none, nil, nil, ErrTimeout
	case limits.MaxWaiting <= 0 || (q != nil && q.Len() >= limits.MaxWaiting):
		return none, nil, nil, ErrFull
	case q == nil:
		q = list.New()
		r.queues[k] = q
	}
	tk := &ticket[G]{settled: make(chan struct{})}
	r.total.Add(1)
	return none, tk, q.PushBack(tk), nil
}

// leave removes a ticket that was not settled; false if it was.
func (r *Room[K, G]) leave(k K, tk *ticket[G], at *list.Element) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if tk.done {
		return false
	}
	tk.done = true
	r.remove(k, at)
	return true
}

// Wake hands free places to those who wait for k, in the order of arrival,
// until there is none left.
func (r *Room[K, G]) Wake(k K) {
	// Always under the lock: a look at total would miss the request that has
	// just found no place and is about to enter.
	r.mu.Lock()
	defer r.mu.Unlock()
	for q := r.queues[k]; q != nil && q.Len() > 0; {
		place, ok := r.take(k)
		if !ok {
			return
		}
		r.settle(k, q.Front(), place, nil)
	}
}

// Fail ends the wait of everybody who waits for k.
func (r *Room[K, G]) Fail(k K, err error) {
	var none G
	r.mu.Lock()
	defer r.mu.Unlock()
	for q := r.queues[k]; q != nil && q.Len() > 0; {
		r.settle(k, q.Front(), none, err)
	}
}

func (r *Room[K, G]) settle(k K, at *list.Element, place G, err error) {
	tk := at.Value.(*ticket[G]) //nolint:forcetypeassert // the room alone fills its lists
	tk.done, tk.place, tk.err = true, place, err
	close(tk.settled)
	r.remove(k, at)
}

func (r *Room[K, G]) remove(k K, at *list.Element) {
	q := r.queues[k]
	q.Remove(at)
	r.total.Add(-1)
	if q.Len() == 0 {
		delete(r.queues, k)
	}
}

// Empty tells whether nobody waits for anything: one atomic read.
func (r *Room[K, G]) Empty() bool { return r.total.Load() == 0 }

// Waiting tells how many requests wait for k.
func (r *Room[K, G]) Waiting(k K) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.queues[k]; q != nil {
		return q.Len()
	}
	return 0
}

// Queues tells for every key that has waiters how many there are.
func (r *Room[K, G]) Queues() map[K]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	lengths := make(map[K]int, len(r.queues))
	for k, q := range r.queues {
		lengths[k] = q.Len()
	}
	return lengths
}
