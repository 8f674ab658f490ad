package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/modelspec"
)

// lease is short: a client that drops its claims must not hold up the rest.
const lease = 50 * time.Millisecond

// tide is after how many operations tenants begin or stop asking for more.
const tide = 500

// client does one random operation after the other, as a tenant, an admitter,
// a relay, a settler, a scaler or an admin would, and sometimes dies in the
// midst: then it drops what it had claimed.
type client struct {
	*round
	ledger  budget.Ledger
	name    string
	rng     *rand.Rand
	claimed []budget.Intent
}

func (c *client) work(ctx context.Context) error {
	for c.left.Add(-1) >= 0 {
		if err := c.step(ctx); !expected(err) {
			return err
		}
		c.note(func(t *tally) { t.operations++ })
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// expected are the rules' own answers.
func expected(err error) bool {
	if err == nil {
		return true
	}
	for _, known := range []error{budget.ErrNotFound, budget.ErrFinal, budget.ErrReleaseRequested, budget.ErrNotReleasable, budget.ErrLeaseLost, budget.ErrNotReserved} {
		if errors.Is(err, known) {
			return true
		}
	}
	var conflict *budget.ConflictError
	var inUse *budget.ModelInUseError
	var stale *budget.StaleGenerationError
	var bound *budget.ReplicaBoundError
	var blocked *budget.BlockedError
	return errors.As(err, &conflict) || errors.As(err, &inUse) || errors.As(err, &stale) || errors.As(err, &bound) || errors.As(err, &blocked)
}

func (c *client) step(ctx context.Context) error {
	switch n := c.rng.IntN(100); {
	case n < 12 && c.left.Load()/tide%2 == 0:
		return c.submit(ctx)
	case n < 12: // the queue empties, and running models may grow
		_, err := c.ledger.RequestRelease(ctx, c.ref())
		return err
	case n < 22:
		return c.admit(ctx)
	case n < 56:
		return c.relay(ctx)
	case n < 68:
		_, err := c.ledger.RequestRelease(ctx, c.reserved())
		return err
	case n < 84:
		return c.credit(ctx)
	case n < 97:
		return c.resize(ctx)
	case n < 98:
		_, err := c.ledger.Expire(ctx)
		return err
	}
	return c.caps(ctx)
}

// reserved is mostly a request that holds slots, else any.
func (c *client) reserved() budget.Ref {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.live) > 0 && c.rng.IntN(3) > 0 {
		return c.live[c.rng.IntN(len(c.live))]
	}
	return c.ref()
}

// ref is a request that was made of late, or will be.
func (c *client) ref() budget.Ref {
	n := max(0, c.ids.Load()-int64(c.rng.IntN(reach)))
	return budget.Ref{Tenant: tenant(int(n % tenants)), ID: fmt.Sprint("r", n)}
}

func (c *client) submit(ctx context.Context) error {
	ref := c.ref()
	if c.rng.IntN(4) > 0 {
		n := c.ids.Add(1)
		ref = budget.Ref{Tenant: tenant(int(n % tenants)), ID: fmt.Sprint("r", n)}
	}
	// What is asked for follows from the id, so that the same id is mostly the
	// same request.
	h := len(ref.ID) + int(ref.ID[len(ref.ID)-1])
	m := modelspec.Default(ref.ID)
	m.Replicas = modelspec.Replicas{Min: h % 3, Max: 3}
	s := budget.Submission{Ref: ref, Cost: int64(1 + h%2), Priority: h % 3, Pool: budget.DefaultPool, TTL: time.Hour, Model: m}
	if c.rng.IntN(50) == 0 {
		s.TTL = time.Second
	}
	got, err := c.ledger.Submit(ctx, s)
	if err == nil && got.Submits == 1 {
		c.note(func(t *tally) { t.submitted++ })
	}
	return err
}

func (c *client) admit(ctx context.Context) error {
	taken, err := c.ledger.Admit(ctx, c.rng.IntN(8))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum.admitted += int64(len(taken))
	for _, q := range taken {
		c.live = append(c.live, q.Ref)
	}
	return err
}

// relay claims, delivers, puts off or forgets.
func (c *client) relay(ctx context.Context) error {
	if len(c.claimed) == 0 {
		var err error
		c.claimed, err = c.ledger.Claim(ctx, c.name, 1+c.rng.IntN(4), lease)
		return err
	}
	in := c.claimed[0]
	c.claimed = c.claimed[1:]
	switch c.rng.IntN(20) {
	case 0:
		c.claimed = nil
		return nil
	case 1:
		return c.ledger.Defer(ctx, in, "away", time.Millisecond)
	}
	return deliver(ctx, c.ledger, in)
}

func deliver(ctx context.Context, l budget.Ledger, in budget.Intent) error {
	var err error
	if in.Op == budget.Delete {
		err = l.DeleteDelivered(ctx, in)
	} else {
		name := in.Tenant + "-" + in.ID
		err = l.Delivered(ctx, in, budget.Object{Name: name, UID: "uid-" + name})
	}
	if expected(err) {
		return nil
	}
	return fmt.Errorf("deliver %v: %w", in.Ref, err)
}

// credit gives back what was released, twice in a row at times.
func (c *client) credit(ctx context.Context) error {
	ref := c.reserved()
	if c.rng.IntN(3) == 0 {
		q, err := c.ledger.Get(ctx, ref)
		if err != nil {
			return err
		}
		_, err = c.ledger.CreditShrink(ctx, ref, q.Generation)
		return err
	}
	q, err := c.ledger.Credit(ctx, ref, false)
	if err != nil || q.State != budget.Released {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.live, ref); i >= 0 {
		c.live = slices.Delete(c.live, i, i+1)
		c.sum.credited++
	}
	return nil
}

// resize is what a scaler and a tenant do to a live request.
func (c *client) resize(ctx context.Context) error {
	ref := c.reserved()
	var err error
	switch c.rng.IntN(3) {
	case 0:
		var q budget.Reservation
		q, err = c.ledger.Grow(ctx, ref, 1+c.rng.IntN(3))
		if err == nil && q.Funded > 1 {
			c.note(func(t *tally) { t.grown++ })
		}
	case 1:
		_, err = c.ledger.Shrink(ctx, ref, 1+c.rng.IntN(2))
	default:
		q, gerr := c.ledger.Get(ctx, ref)
		if gerr != nil {
			return gerr
		}
		_, err = c.ledger.Patch(ctx, ref, budget.Patch{Generation: q.Generation, Replicas: &modelspec.Replicas{Min: c.rng.IntN(4), Max: 3}})
	}
	return err
}

func (c *client) caps(ctx context.Context) (err error) {
	if c.still {
		return nil
	}
	if c.rng.IntN(3) == 0 {
		_, err = c.ledger.SetPool(ctx, budget.DefaultPool, int64(20+c.rng.IntN(30)))
		return err
	}
	_, err = c.ledger.SetQuota(ctx, tenant(c.rng.IntN(tenants)), int64(c.rng.IntN(20)))
	return err
}
