package route

import (
	"sync/atomic"
	"time"
)

// load is what runs on one replica, in one word, so that "is it still open",
// "has it room" and "count me" are one atomic step: the sign bit says closed,
// then 22 bits of requests, then 41 bits of estimated tokens.
type load struct {
	state   atomic.Int64
	breaker breaker
	// failures counts all that the replica ever had.
	failures atomic.Int64
	signal   atomic.Pointer[Signal]
}

const (
	closedBit  = int64(-1) << 63
	tokenBits  = 41
	oneRequest = int64(1) << tokenBits
	tokenMask  = oneRequest - 1
	// maxTokens bounds one request's share, so that the sum of as many
	// requests as can be counted cannot spill into their number.
	maxTokens = int64(1) << (tokenBits - 22)
)

func runningIn(state int64) int       { return int(state &^ closedBit >> tokenBits) }
func tokensIn(state int64) int64      { return state & tokenMask }
func isClosed(state int64) bool       { return state&closedBit != 0 }
func weigh(tokens int64) int64        { return oneRequest + min(max(tokens, 0), maxTokens) }
func (l *load) running() int          { return runningIn(l.state.Load()) }
func (l *load) tokens() int64         { return tokensIn(l.state.Load()) }
func (l *load) close()                { l.state.Or(closedBit) }
func (l *load) reopen()               { l.state.And(^closedBit) }
func (l *load) release(w int64)       { l.state.Add(-w) }
func (l *load) full(n, most int) bool { return most > 0 && n >= most }

// take counts a request of weight w if nothing has changed since state was
// read.
func (l *load) take(state, w int64) bool { return l.state.CompareAndSwap(state, state+w) }

// reserve counts a request of weight w unless the replica is closed or full.
func (l *load) reserve(w int64, most int) bool {
	for {
		s := l.state.Load()
		if isClosed(s) || l.full(runningIn(s), most) {
			return false
		}
		if l.take(s, w) {
			return true
		}
	}
}

// Signal is what an engine said about itself when it was asked. What it did
// not say is unknown, which is not zero.
type Signal struct {
	At      time.Time
	Waiting Figure // requests in the engine's own queue
	Running Figure // requests that it works on
	KVUsage Figure // share of the KV cache in use, 1 is full
	Memory  Figure // share of its cards' memory in use
	Period  time.Duration
}

// Figure is a number that may be unknown.
type Figure struct {
	Value float64
	Known bool
}

// Known is a number that is.
func Known(v float64) Figure { return Figure{Value: v, Known: true} }

// fresh tells whether a signal is younger than two scrape periods; an older
// one says nothing, which is not the same as no load.
func (s *Signal) fresh(now time.Time) bool {
	age := now.Sub(s.At)
	return age >= 0 && age < 2*s.Period
}

// kvFull is the share of the KV cache from which engines begin to preempt.
const kvFull = 0.9

func (s *Signal) saturated() bool { return s.Waiting.Value > 0 || s.KVUsage.Value >= kvFull }

// penalty is the signal in tokens. It is added to the gateway's own count,
// which has no delay and therefore decides in bursts; what is unknown adds
// nothing.
func (s *Signal) penalty() int64 {
	p := int64(min(max(s.Waiting.Value, 0), 1<<20)) * 2 * requestCost
	if over := s.KVUsage.Value - 0.8; over > 0 {
		p += int64(min(over, 0.2) * 5 * 16 * requestCost)
	}
	return p
}
