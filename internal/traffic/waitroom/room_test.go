package waitroom

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// places is a stock of numbered places for one key.
type places struct {
	mu   sync.Mutex
	free int
	next int
}

func (p *places) take(string, struct{}, bool) (int, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free == 0 {
		return 0, false
	}
	p.free--
	p.next++
	return p.next, true
}

func (p *places) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free += n
}

type outcome struct {
	place int
	err   error
}

type room = Room[string, struct{}, int]

type guest = Guest[struct{}]

func setup(adjust ...func(*Config[string, struct{}, int])) (*room, *places) {
	p := &places{}
	cfg := Config[string, struct{}, int]{Take: p.take}
	for _, f := range adjust {
		f(&cfg)
	}
	return New(cfg), p
}

// enter starts a wait and returns when it is in the queue.
func enter(t *testing.T, r *room, ctx context.Context, g guest) <-chan outcome { //nolint:revive // t first
	t.Helper()
	before := r.Waiting("k")
	result := make(chan outcome, 1)
	go func() {
		place, err := r.Wait(ctx, "k", g)
		result <- outcome{place, err}
	}()
	for deadline := time.Now().Add(10 * time.Second); r.Waiting("k") == before; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("the request did not enter")
		}
	}
	return result
}

var patient = guest{MaxWaiting: 100, Timeout: time.Minute}

func TestPlacesGoInOrderOfArrival(t *testing.T) {
	t.Parallel()
	r, p := setup()
	var results []<-chan outcome
	for range 10 {
		results = append(results, enter(t, r, t.Context(), patient))
	}
	p.add(4)
	r.Wake("k")
	for i, result := range results[:4] {
		if o := <-result; o.err != nil || o.place != i+1 {
			t.Errorf("number %d got place %d, %v", i+1, o.place, o.err)
		}
	}
	if r.Waiting("k") != 6 || r.Queues()["k"].Waiting != 6 {
		t.Errorf("%d wait", r.Waiting("k"))
	}
	// A newcomer does not overtake: it takes its turn behind the six.
	p.add(6)
	last := enter(t, r, t.Context(), patient)
	r.Wake("k")
	for i, result := range results[4:] {
		if o := <-result; o.place != i+5 {
			t.Errorf("number %d got place %d", i+5, o.place)
		}
	}
	p.add(1)
	r.Wake("k")
	if o := <-last; o.place != 11 || !r.Empty() {
		t.Errorf("the newcomer got place %d", o.place)
	}
}

func TestAtOnceIfThereIsAPlace(t *testing.T) {
	t.Parallel()
	r, p := setup()
	p.add(1)
	if place, err := r.Wait(t.Context(), "k", guest{}); place != 1 || err != nil {
		t.Errorf("%d, %v", place, err)
	}
	if _, err := r.Wait(t.Context(), "k", guest{MaxWaiting: 1}); !errors.Is(err, ErrTimeout) {
		t.Errorf("without patience: %v", err)
	}
	if _, err := r.Wait(t.Context(), "k", guest{Timeout: time.Minute}); !errors.Is(err, ErrFull) {
		t.Errorf("without room: %v", err)
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	r, p := setup()
	two := guest{MaxWaiting: 2, Timeout: time.Minute}
	ctx, cancel := context.WithCancelCause(t.Context())
	first, second := enter(t, r, t.Context(), two), enter(t, r, ctx, two)
	if _, err := r.Wait(t.Context(), "k", two); !errors.Is(err, ErrFull) {
		t.Errorf("a third of two: %v", err)
	}
	left := errors.New("left")
	cancel(left)
	if o := <-second; !errors.Is(o.err, left) || r.Waiting("k") != 1 {
		t.Errorf("%v, %d wait", o.err, r.Waiting("k"))
	}
	if _, err := r.Wait(t.Context(), "k", guest{MaxWaiting: 2, Timeout: time.Millisecond}); !errors.Is(err, ErrTimeout) {
		t.Errorf("%v", err)
	}
	p.add(1)
	r.Wake("k")
	if o := <-first; o.place != 1 {
		t.Errorf("%+v", o)
	}
}

func TestFailEndsTheWait(t *testing.T) {
	t.Parallel()
	r, _ := setup()
	a, b := enter(t, r, t.Context(), patient), enter(t, r, t.Context(), patient)
	broken := errors.New("broken")
	r.Fail("other", broken)
	if r.Waiting("k") != 2 {
		t.Fatal("another key's failure ended the wait")
	}
	r.Fail("k", broken)
	for _, result := range []<-chan outcome{a, b} {
		if o := <-result; !errors.Is(o.err, broken) {
			t.Errorf("%+v", o)
		}
	}
}

// TestCheckBacksNotifications: both a place and a reason to stop are found
// without anybody telling.
func TestCheckBacksNotifications(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	r, p := setup(func(cfg *Config[string, struct{}, int]) {
		cfg.CheckEvery = time.Millisecond
		cfg.Check = func(string) error {
			if broken.Load() {
				return errors.New("broken")
			}
			return nil
		}
	})
	first := enter(t, r, t.Context(), patient)
	p.add(1)
	if o := <-first; o.place != 1 || o.err != nil {
		t.Errorf("%+v", o)
	}
	second := enter(t, r, t.Context(), patient)
	broken.Store(true)
	if o := <-second; o.err == nil {
		t.Errorf("%+v", o)
	}
}

// TestNoPlaceIsLost: of places and requests that come and leave at random,
// every place goes to one request or stays free.
func TestNoPlaceIsLost(t *testing.T) {
	t.Parallel()
	r, p := setup()
	var got, gone atomic.Int64
	var all sync.WaitGroup
	for i := range 2000 {
		all.Go(func() {
			_, err := r.Wait(t.Context(), "k", guest{MaxWaiting: 5000, Timeout: time.Duration(i%7) * 100 * time.Microsecond})
			if err == nil {
				got.Add(1)
			} else {
				gone.Add(1)
			}
		})
		if i%2 == 0 {
			p.add(1)
			r.Wake("k")
		}
	}
	all.Wait()
	if int(got.Load())+p.free != 1000 || got.Load()+gone.Load() != 2000 || !r.Empty() {
		t.Errorf("%d got a place, %d are free, %d gave up", got.Load(), p.free, gone.Load())
	}
}
