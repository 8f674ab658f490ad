package route

import (
	"sync/atomic"
	"time"
)

const (
	budgetWindow = 10 * time.Second
	// budgetFloor retries per window are free, so that a quiet gateway can
	// step over a dead replica at all.
	budgetFloor = 100
	// budgetShare of the requests of the window may be tried again.
	budgetShare = 5 // one in five
)

// RetryBudget bounds how many requests are tried again, so that a failing
// model is not buried under the repetitions of its own traffic. The zero value
// is ready.
type RetryBudget struct {
	window            atomic.Int64
	requests, retries atomic.Int64
}

// Request counts a request that was received at now.
func (b *RetryBudget) Request(now time.Time) {
	b.turn(now)
	b.requests.Add(1)
}

// Retry tells whether one more retry is within the budget, and takes it.
func (b *RetryBudget) Retry(now time.Time) bool {
	b.turn(now)
	if b.retries.Add(1) <= budgetFloor+b.requests.Load()/budgetShare {
		return true
	}
	b.retries.Add(-1)
	return false
}

// turn begins a new window. Counts of the moment of change may be lost, which
// a budget can bear.
func (b *RetryBudget) turn(now time.Time) {
	window := now.UnixNano() / int64(budgetWindow)
	if old := b.window.Load(); old < window && b.window.CompareAndSwap(old, window) {
		b.requests.Store(0)
		b.retries.Store(0)
	}
}
