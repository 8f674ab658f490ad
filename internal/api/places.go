package api

import (
	"errors"
	"sync"
)

var (
	errOwnTaken = errors.New("the caller has as many as it may")
	errAllTaken = errors.New("all are taken")
)

// places bounds what goes on for as long as its caller wants: so many of one
// caller, so many of all.
type places struct {
	each, all int

	mu      sync.Mutex
	taken   int
	callers map[string]int
}

func newPlaces(each, all int) *places {
	return &places{each: each, all: all, callers: map[string]int{}}
}

// take returns how the place is given back, or errOwnTaken or errAllTaken.
func (p *places) take(caller string) (leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.callers[caller] >= p.each:
		return nil, errOwnTaken
	case p.taken >= p.all:
		return nil, errAllTaken
	}
	p.taken++
	p.callers[caller]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.taken--
		if p.callers[caller]--; p.callers[caller] == 0 {
			delete(p.callers, caller)
		}
	}, nil
}
