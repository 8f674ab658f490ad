package main

import (
	"fmt"

	"modeldock.io/internal/placement"
)

// tally is what a replay ended with.
type tally struct {
	placed int   // models that started before the first rejection
	failed int   // starts on a node that had no card for them
	peak   int64 // MiB that ran at the most
	has    int64 // MiB that the cards have
	ended  bool  // a recording ended before a rejection
}

func (t *tally) add(one tally) {
	t.placed += one.placed
	t.failed += one.failed
	t.peak += one.peak
	t.has += one.has
	t.ended = t.ended || one.ended
}

func (t tally) String() string {
	s := fmt.Sprintf("%d (%.1f %%)", t.placed, float64(t.peak)*100/float64(t.has))
	if t.failed > 0 {
		s += fmt.Sprintf(" %d failed", t.failed)
	}
	if t.ended { // more might have been placed
		s += " +"
	}
	return s
}

// outcome of one placement.
type outcome int

const (
	rejected outcome = iota // the policy knows no place
	started
	failed // the policy chose a place that has not enough memory
)

// policy is one way to place models. Owners are unique.
type policy interface {
	place(owner string, r placement.Request) (outcome, error)
	leave(owner string) error
}

// replay feeds a mix to a policy until it rejects the first request.
func replay(m mix, p policy) (tally, error) {
	var t tally
	for _, n := range m.nodes {
		for _, c := range n.Cards {
			t.has += c.TotalMiB
		}
	}
	running := map[string]int64{}
	var used int64
	for i, e := range m.events {
		if e.leaves {
			used -= running[e.owner]
			delete(running, e.owner)
			if err := p.leave(e.owner); err != nil {
				return t, fmt.Errorf("event %d: %w", i+1, err)
			}
			continue
		}
		got, err := p.place(e.owner, e.request)
		if err != nil {
			return t, fmt.Errorf("event %d: %w", i+1, err)
		}
		switch got {
		case rejected:
			return t, nil
		case failed:
			t.failed++
		case started:
			t.placed++
			running[e.owner] = e.request.MiB * int64(e.request.Cards)
			used += running[e.owner]
			t.peak = max(t.peak, used)
		}
	}
	t.ended = true
	return t, nil
}
