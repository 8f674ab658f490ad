package app

import (
	"context"
	"errors"
	"time"

	"modeldock.io/internal/delivery/local"
	"modeldock.io/internal/traffic/signals"
)

const (
	admitPoll   = time.Second // the safety net; a wake comes first
	admitSet    = 128         // admissions per commit
	verifyEvery = time.Minute
	pruneEvery  = 10 * time.Minute
	traceAge    = 7 * 24 * time.Hour
	maxTraces   = 500_000
	maxAudits   = 1_000_000
)

// parts are the accounts' loops that a process runs.
type parts struct {
	admit   bool // expire, admit, verify
	deliver bool // relay, settle
}

// run starts a loop that ends with its context.
func (c *control) run(f func()) { c.loops.Go(f) }

// startAccounts runs the loops of the accounts. Every process that acts on
// what the target shows also reconciles: its own doubt stops it.
func (c *control) startAccounts(ctx context.Context, p parts) {
	c.run(func() { c.every(ctx, "compare an older ledger", olderEvery, c.compareAgain) })
	if p.admit {
		admit := c.moved.listen()
		c.run(func() { c.admission(ctx, admit) })
		c.run(func() { c.every(ctx, "verify", verifyEvery, c.verify) })
		c.run(func() { c.every(ctx, "prune", pruneEvery, c.prune) })
	}
	if p.deliver {
		relay, settle, seen := c.moved.listen(), c.moved.listen(), c.observed.listen()
		c.run(func() { c.relay.Run(ctx, relay) })
		c.run(func() { c.settler.Run(ctx, merge(ctx, settle, seen)) })
	}
	if p.admit || p.deliver {
		c.run(func() { c.reconcile.Run(ctx, nil) })
	}
}

// startLoops runs everything that acts by itself. Under --manual the accounts
// stand still until they are stepped.
func (p *platform) startLoops(ctx context.Context) {
	snapshots, seen := p.moved.listen(), p.observed.listen()
	p.run(func() { p.directory.run(ctx, merge(ctx, snapshots, seen)) })
	p.run(func() { p.every(ctx, "count sign-ins", pruneEvery, p.countSignIns) })
	p.run(func() {
		signals.New(signals.Config{Table: p.table, Clock: p.clock, Verify: local.CheckEngine}).Run(ctx)
	})
	if !p.opts.Manual {
		p.startAccounts(ctx, parts{admit: true, deliver: true})
		moved, changed := p.moved.listen(), p.observed.listen()
		p.run(func() { p.scaler.Run(ctx, merge(ctx, moved, changed)) })
		return
	}
	p.run(func() { p.every(ctx, "compare an older ledger", olderEvery, p.compareAgain) })
	p.run(func() { p.every(ctx, "verify", verifyEvery, p.verify) })
	p.run(func() { p.every(ctx, "prune", pruneEvery, p.prune) })
}

// merge joins two wake channels into one.
func merge(ctx context.Context, a, b <-chan struct{}) <-chan struct{} {
	out := make(chan struct{}, 1)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-a:
			case <-b:
			}
			select {
			case out <- struct{}{}:
			default:
			}
		}
	}()
	return out
}

// admission expires and admits at every wake and at least each second, which
// also covers caps changed directly in the database.
func (c *control) admission(ctx context.Context, wake <-chan struct{}) {
	tick := time.NewTicker(admitPoll)
	defer tick.Stop()
	for {
		err := c.admit(ctx)
		c.health.report(ctx, "admission", err)
		c.health.report(ctx, "delivery", c.doubted())
		switch {
		case err == nil:
			c.unadmitted.Works()
		case ctx.Err() == nil:
			c.unadmitted.Failed(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-tick.C:
		}
	}
}

func (c *control) every(ctx context.Context, name string, d time.Duration, f func(context.Context) error) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		if err := f(ctx); err != nil && ctx.Err() == nil {
			c.log.Error("background round failed", "round", name, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// verify recomputes the invariants; anything it finds is an alarm.
func (c *control) verify(ctx context.Context) error {
	rep, err := c.ledger.Verify(ctx)
	if err != nil {
		return err
	}
	c.health.drift.Set(float64(len(rep.Violations)))
	c.health.verified.Set(float64(c.clock().Unix()))
	if rep.Clean() {
		c.health.report(ctx, "verify", nil)
		return nil
	}
	for _, v := range rep.Violations {
		c.log.Error("ledger invariant broken", "invariant", v.Invariant, "subject", v.Subject, "message", v.Message)
	}
	c.health.report(ctx, "verify", errors.New(rep.Violations[0].Subject+": "+rep.Violations[0].Message))
	return nil
}

// prune forgets what is no part of the accounts and too old, or too much.
func (c *control) prune(ctx context.Context) error {
	return errors.Join(c.ledger.Prune(ctx, traceAge, maxTraces), c.ledger.PruneAudit(ctx, maxAudits))
}

// countSignIns writes into the audit how many sign-ins were not stored.
func (c *control) countSignIns(ctx context.Context) error { return c.api.SumUpSignIns(ctx, false) }

// admit takes all that fits, a bounded set per commit.
func (c *control) admit(ctx context.Context) error {
	_, back, err := c.reachLedger(ctx)
	if err != nil {
		return err
	}
	if back {
		return c.checkAge(ctx)
	}
	done, ok := c.doubt.Begin()
	if !ok {
		return nil // why is told by the health of "restore"
	}
	defer done()
	if _, err := c.ledger.Expire(ctx); err != nil {
		return err
	}
	for c.doubt.Why() == "" {
		taken, err := c.ledger.Admit(ctx, admitSet)
		if err != nil || len(taken) < admitSet {
			return err
		}
	}
	return nil
}

// doubted is why admission and release stand still, if they do.
func (c *control) doubted() error {
	if why := c.doubt.Why(); why != "" && c.doubt.Halted() == "" {
		return errors.New(why)
	}
	return nil
}
