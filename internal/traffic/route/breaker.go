package route

import (
	"sync/atomic"
	"time"
)

const (
	// tripAfter failures in a row open a breaker; a refused connection does
	// so at once.
	tripAfter = 5
	firstRest = 250 * time.Millisecond
	maxRest   = 30 * time.Second
)

// breaker keeps requests from a replica that fails. After a rest that doubles
// with every failure it lets one request through; that one's fate decides.
//
// A replica that cannot be reached is out. One that answers with errors is
// only avoided: if there is no other, it is asked all the same, because the
// errors may be the requests' fault.
type breaker struct {
	until    atomic.Int64 // UnixNano; 0: closed
	soft     atomic.Bool  // opened by errors, not by silence
	failures atomic.Int32 // in a row
	rests    atomic.Int32
	probing  atomic.Bool
}

// standing is what a breaker says about a new request.
type standing int8

const (
	usable standing = iota
	probe           // half open: usable by whoever gets the one probe
	avoid
	out
)

func (b *breaker) standing(now func() time.Time) standing {
	until := b.until.Load()
	switch {
	case until == 0:
		return usable
	case now().UnixNano() >= until:
		if !b.probing.Load() {
			return probe
		}
	}
	if b.soft.Load() {
		return avoid
	}
	return out
}

func (b *breaker) succeeded() {
	if b.failures.Load() != 0 {
		b.failures.Store(0)
	}
	if b.until.Load() != 0 {
		b.rests.Store(0)
		b.until.Store(0)
	}
}

// failed counts a failure; unreached ones and a probe's open at once.
func (b *breaker) failed(now time.Time, unreached, probed bool) {
	n := b.failures.Add(1)
	if !unreached && !probed && n < tripAfter {
		return
	}
	if until := b.until.Load(); until > now.UnixNano() && !unreached {
		return // others of the same burst
	}
	rests := b.rests.Load()
	if b.until.Load() == 0 || probed {
		rests = b.rests.Add(1)
	}
	b.soft.Store(!unreached)
	b.until.Store(now.Add(restFor(rests)).UnixNano())
}

func restFor(rests int32) time.Duration {
	if rests < 1 {
		rests = 1
	}
	return min(firstRest<<min(rests-1, 10), maxRest)
}
