package api

import (
	"context"
	"fmt"
	"sync"
	"time"

	"modeldock.io/internal/budget"
)

const (
	// countsAge is how long the ledger's figures about a tenant are used; what
	// this process let in meanwhile is added.
	countsAge = time.Second
	// maxCounted bounds the tenants remembered: an admin may name any.
	maxCounted = 4096
)

// storedRows keeps tenants from filling the ledger. It asks the ledger once a
// second for each busy tenant, so that several processes may together let in a
// little more than the bounds say.
type storedRows struct {
	bounds budget.Bounds
	ledger budget.Ledger
	clock  func() time.Time

	mu      sync.Mutex
	tenants map[string]*counted
}

type counted struct {
	budget.Counts
	at    time.Time
	since int64 // let in by this process after that
}

func newStoredRows(bounds budget.Bounds, ledger budget.Ledger, clock func() time.Time) *storedRows {
	if bounds == (budget.Bounds{}) {
		bounds = budget.DefaultBounds()
	}
	return &storedRows{bounds: bounds, ledger: ledger, clock: clock, tenants: map[string]*counted{}}
}

// submit returns a *budget.BoundError where one more request is too many.
func (s *storedRows) submit(ctx context.Context, tenant string) error {
	return s.oneMore(ctx, tenant, s.bounds.Submit)
}

// grant is the same for a grant.
func (s *storedRows) grant(ctx context.Context, tenant string) error {
	return s.oneMore(ctx, tenant, s.bounds.Grant)
}

func (s *storedRows) oneMore(ctx context.Context, tenant string, allowed func(string, budget.Counts) error) error {
	counts, fresh, err := s.counts(ctx, tenant, false)
	if err == nil && allowed(tenant, counts) != nil && !fresh { // what was let in may have ended already
		counts, _, err = s.counts(ctx, tenant, true)
	}
	if err != nil {
		return fmt.Errorf("count what tenant %s has stored: %w", tenant, err)
	}
	if err := allowed(tenant, counts); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.tenants[tenant]; c != nil {
		c.since++
	}
	return nil
}

// counts are the ledger's figures of at most a second ago, with what was let
// in since; fresh if nothing was.
func (s *storedRows) counts(ctx context.Context, tenant string, again bool) (n budget.Counts, fresh bool, err error) {
	now := s.clock()
	s.mu.Lock()
	c := s.tenants[tenant]
	if c != nil && !again && now.Sub(c.at) < countsAge && !now.Before(c.at) {
		n, since := c.Counts, c.since
		s.mu.Unlock()
		n.Waiting, n.Requests, n.Grants = n.Waiting+since, n.Requests+since, n.Grants+since
		return n, since == 0, nil
	}
	s.mu.Unlock()
	if n, err = s.ledger.Counts(ctx, tenant); err != nil {
		return n, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tenants) >= maxCounted {
		clear(s.tenants)
	}
	s.tenants[tenant] = &counted{Counts: n, at: now}
	return n, true, nil
}
