package app

import (
	"context"
	"errors"
	"time"
)

const (
	admitPoll   = time.Second // the safety net; a wake comes first
	admitSet    = 128         // admissions per commit
	verifyEvery = time.Minute
	pruneEvery  = 10 * time.Minute
	traceAge    = 7 * 24 * time.Hour
	maxTraces   = 500_000
)

// startLoops runs everything that acts by itself. Under --manual the four
// account loops stand still until they are stepped.
func (p *platform) startLoops(ctx context.Context) {
	run := func(f func()) {
		p.loops.Add(1)
		go func() {
			defer p.loops.Done()
			f()
		}()
	}
	snapshots := p.moved.listen()
	seen := p.observed.listen()
	run(func() { p.directory.run(ctx, merge(ctx, snapshots, seen)) })
	run(func() { p.every(ctx, "verify", verifyEvery, p.verify) })
	run(func() { p.every(ctx, "prune", pruneEvery, p.prune) })
	run(func() { p.every(ctx, "compare an older ledger", olderEvery, p.compareAgain) })
	if p.opts.Manual {
		return
	}
	admit, relay, settle := p.moved.listen(), p.moved.listen(), p.moved.listen()
	settleToo := p.observed.listen()
	run(func() { p.admission(ctx, admit) })
	run(func() { p.relay.Run(ctx, relay) })
	run(func() { p.settler.Run(ctx, merge(ctx, settle, settleToo)) })
	run(func() { p.reconcile.Run(ctx, nil) })
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
func (p *platform) admission(ctx context.Context, wake <-chan struct{}) {
	tick := time.NewTicker(admitPoll)
	defer tick.Stop()
	for {
		err := p.admit(ctx)
		p.health.report(ctx, "ledger", err)
		p.health.report(ctx, "delivery", p.doubted())
		if err != nil && ctx.Err() == nil {
			p.log.Error("admission round failed; it is tried again within a second", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-tick.C:
		}
	}
}

func (p *platform) every(ctx context.Context, name string, d time.Duration, f func(context.Context) error) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		if err := f(ctx); err != nil && ctx.Err() == nil {
			p.log.Error("background round failed", "round", name, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// verify recomputes the invariants; anything it finds is an alarm.
func (p *platform) verify(ctx context.Context) error {
	rep, err := p.ledger.Verify(ctx)
	if err != nil {
		return err
	}
	p.health.drift.Set(float64(len(rep.Violations)))
	if rep.Clean() {
		p.health.report(ctx, "verify", nil)
		return nil
	}
	for _, v := range rep.Violations {
		p.log.Error("ledger invariant broken", "invariant", v.Invariant, "subject", v.Subject, "message", v.Message)
	}
	p.health.report(ctx, "verify", errors.New(rep.Violations[0].Subject+": "+rep.Violations[0].Message))
	return nil
}

func (p *platform) prune(ctx context.Context) error { return p.ledger.Prune(ctx, traceAge, maxTraces) }

// admit takes all that fits, a bounded set per commit.
func (p *platform) admit(ctx context.Context) error {
	done, ok := p.doubt.Begin()
	if !ok {
		return nil // why is told by the health of "restore"
	}
	defer done()
	if _, err := p.ledger.Expire(ctx); err != nil {
		return err
	}
	for p.doubt.Why() == "" {
		taken, err := p.ledger.Admit(ctx, admitSet)
		if err != nil || len(taken) < admitSet {
			return err
		}
	}
	return nil
}

// doubted is why admission and release stand still, if they do.
func (p *platform) doubted() error {
	if why := p.doubt.Why(); why != "" && p.doubt.Halted() == "" {
		return errors.New(why)
	}
	return nil
}
