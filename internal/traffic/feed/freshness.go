package feed

import (
	"context"
	"time"
)

// RefreshPause keeps callers of unknown models from costing more than 20
// refreshes a second.
const RefreshPause = 50 * time.Millisecond

// Freshness lets callers who ask together share one refresh, and its failure:
// while the source is away they must not fail one after another.
type Freshness struct {
	turn   chan struct{} // held by the caller that makes a newer one
	clock  func() time.Time
	tried  time.Time // when the latest refresh began, guarded by turn
	failed error     // how it ended
}

// NewFreshness returns one that has tried nothing.
func NewFreshness(clock func() time.Time) *Freshness {
	return &Freshness{turn: make(chan struct{}, 1), clock: clock}
}

// Since returns once what at names was taken at since or later, refreshing it
// if it was not.
func (f *Freshness) Since(ctx context.Context, since time.Time, at func() time.Time, refresh func(context.Context) error) error {
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	last := at()
	switch {
	case !last.Before(since):
		return nil
	case !f.tried.Before(since) && f.failed != nil:
		return f.failed
	case f.tried.After(last):
		last = f.tried
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(RefreshPause - f.clock().Sub(last)):
	}
	began := f.clock()
	err := refresh(ctx)
	if ctx.Err() == nil { // a caller who left says nothing about the source
		f.tried, f.failed = began, err
	}
	return err
}
