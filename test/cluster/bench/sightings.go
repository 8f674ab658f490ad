package main

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"
)

// readyWait bounds the wait for all objects of one side.
const readyWait = 15 * time.Minute

// sightings are when things were first seen, and first seen ready, by name.
type sightings struct {
	mu          sync.Mutex
	seen, ready map[string]time.Time
	changed     chan struct{} // closed at every change
}

func newSightings() *sightings {
	return &sightings{seen: map[string]time.Time{}, ready: map[string]time.Time{}, changed: make(chan struct{})}
}

func (s *sightings) note(name string, ready bool) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	_, seen := s.seen[name]
	_, was := s.ready[name]
	if seen && (was || !ready) {
		return
	}
	if !seen {
		s.seen[name] = now
	}
	if ready && !was {
		s.ready[name] = now
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// of returns when a thing was seen and seen ready; zero: it was not.
func (s *sightings) of(name string) (seen, ready time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[name], s.ready[name]
}

// wait returns once n of the names that match are ready, with the time of the
// last one.
func (s *sightings) wait(ctx context.Context, n int, match func(name string) bool) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	for {
		s.mu.Lock()
		changed := s.changed
		there := maps.Clone(s.ready)
		s.mu.Unlock()
		maps.DeleteFunc(there, func(name string, _ time.Time) bool { return !match(name) })
		if len(there) >= n {
			var last time.Time
			for _, at := range there {
				if at.After(last) {
					last = at
				}
			}
			return last, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("%d of %d are ready: %w", len(there), n, ctx.Err())
		}
		select { // a thousand events are not a thousand copies
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// lastSeen is when the last of those that match appeared.
func (s *sightings) lastSeen(match func(name string) bool) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	var last time.Time
	for name, at := range s.seen {
		if match(name) && at.After(last) {
			last = at
		}
	}
	return last
}
