package waitroom

import (
	"sync"
	"time"
)

// Starts learns how long the models K take to become ready, so that callers
// can be told how long they will wait. All methods may be called concurrently.
type Starts[K comparable] struct {
	mu    sync.Mutex
	begun map[K]time.Time
	took  map[K]time.Duration
}

// NewStarts returns one that knows nothing yet.
func NewStarts[K comparable]() *Starts[K] {
	return &Starts[K]{begun: map[K]time.Time{}, took: map[K]time.Duration{}}
}

// Begin notes that k begins to start, unless it is starting already.
func (s *Starts[K]) Begin(k K, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.begun[k]; !known {
		s.begun[k] = at
	}
}

// Restart notes that k begins to start only now, whatever was noted before:
// it was asleep until then.
func (s *Starts[K]) Restart(k K, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun[k] = at
}

// Stop notes that k does not start: it sleeps.
func (s *Starts[K]) Stop(k K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.begun, k)
}

// Ready notes that k is ready. Later starts count as much as all before them.
func (s *Starts[K]) Ready(k K, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begun, known := s.begun[k]
	if !known {
		return
	}
	delete(s.begun, k)
	if d := at.Sub(begun); d > 0 {
		if old := s.took[k]; old > 0 {
			d = (old + d) / 2
		}
		s.took[k] = d
	}
}

// Remaining tells how long k still takes by its earlier starts; false if it
// never started before. A start that is overdue takes another tenth of the
// usual time.
func (s *Starts[K]) Remaining(k K, now time.Time) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	took, known := s.took[k]
	if !known {
		return 0, false
	}
	begun, starting := s.begun[k]
	if !starting {
		return took, true
	}
	return max(begun.Add(took).Sub(now), took/10), true
}

// Keep forgets every model but the wanted ones.
func (s *Starts[K]) Keep(wanted func(K) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.begun {
		if !wanted(k) {
			delete(s.begun, k)
		}
	}
	for k := range s.took {
		if !wanted(k) {
			delete(s.took, k)
		}
	}
}
