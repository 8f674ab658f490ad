package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"modeldock.io/internal/budget"
)

const (
	clients = 8
	tenants = 5
	// reach is how far back a random choice of a request goes: mostly live ones.
	reach = 60
)

// marathon runs rounds, each on a fresh ledger, until all operations are done.
func (s *store) marathon(ctx context.Context, operations int64, seed uint64) (sum tally, err error) {
	for number := 0; sum.operations < operations && err == nil; number++ {
		var one tally
		one, err = s.round(ctx, number, min(s.perRound, operations-sum.operations), seed)
		sum.add(one)
	}
	return sum, err
}

// round is one ledger's life. In every second one the caps stand still, so
// that a tenant or pool above its cap is an over-commit at whatever moment.
type round struct {
	ledgers []budget.Ledger
	left    atomic.Int64 // operations
	ids     atomic.Int64 // given so far
	still   bool

	mu   sync.Mutex
	sum  tally
	live []budget.Ref // admitted, and not credited yet
}

func (s *store) round(ctx context.Context, number int, operations int64, seed uint64) (_ tally, err error) {
	ledgers, drop, err := s.open(ctx, number)
	if err != nil {
		return tally{}, err
	}
	defer func() {
		for _, l := range ledgers {
			err = errors.Join(err, l.Close())
		}
		err = errors.Join(err, drop())
	}()
	r := &round{ledgers: ledgers, still: number%2 == 0}
	r.left.Store(operations)
	if err := r.furnish(ctx); err != nil {
		return r.sum, err
	}
	errs := make([]error, clients)
	var working, sampling sync.WaitGroup
	for i := range clients {
		working.Go(func() {
			c := &client{round: r, ledger: ledgers[i%len(ledgers)], name: fmt.Sprint("relay-", i), rng: rand.New(rand.NewPCG(seed, uint64(number*clients+i)))}
			errs[i] = c.work(ctx)
		})
	}
	done := make(chan struct{})
	var sampled error
	sampling.Go(func() { sampled = r.sample(ctx, done) })
	working.Wait()
	close(done)
	sampling.Wait()
	if err := errors.Join(append(errs, sampled)...); err != nil {
		return r.sum, err
	}
	return r.sum, r.settle(ctx)
}

func tenant(i int) string { return fmt.Sprint("team-", i) }

func (r *round) furnish(ctx context.Context) error {
	_, err := r.ledgers[0].SetPool(ctx, budget.DefaultPool, 40)
	for i := range tenants {
		if err == nil {
			_, err = r.ledgers[0].SetQuota(ctx, tenant(i), int64(6+2*i))
		}
	}
	return err
}

func (r *round) note(change func(*tally)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.sum)
}

func (r *round) found(format string, args ...any) {
	r.note(func(t *tally) { t.findings = append(t.findings, fmt.Sprintf(format, args...)) })
}

// sample holds the ledger to its invariants while the clients work.
func (r *round) sample(ctx context.Context, done <-chan struct{}) error {
	for {
		if err := r.verify(ctx, "while they run"); err != nil {
			return err
		}
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func (r *round) verify(ctx context.Context, when string) error {
	for _, l := range r.ledgers {
		report, err := l.Verify(ctx)
		if err != nil {
			return fmt.Errorf("verify: %w", err)
		}
		for _, v := range report.Violations {
			r.found("%s, %s: %s: %s", when, v.Invariant, v.Subject, v.Message)
		}
		quotas, err := l.Tenants(ctx)
		if err != nil {
			return err
		}
		pools, err := l.Pools(ctx)
		if err != nil {
			return err
		}
		for _, q := range quotas {
			if q.Used < 0 || r.still && q.Used > q.Cap {
				r.found("%s, over-commit: tenant %s uses %d of %d", when, q.Name, q.Used, q.Cap)
			}
		}
		for _, p := range pools {
			if p.Used < 0 || r.still && p.Used > p.Cap {
				r.found("%s, over-commit: pool %s uses %d of %d", when, p.Name, p.Used, p.Cap)
			}
		}
		r.note(func(t *tally) { t.samples++ })
	}
	return nil
}

// settle ends every request and looks at what is left: nothing may be held,
// and every journal adds up to nothing, with one debit by admission and one
// last credit.
func (r *round) settle(ctx context.Context) error {
	l := r.ledgers[0]
	all, err := l.List(ctx, budget.Filter{})
	if err != nil {
		return err
	}
	for _, q := range all {
		if _, err := l.RequestRelease(ctx, q.Ref); err != nil && !errors.Is(err, budget.ErrFinal) {
			return fmt.Errorf("release %v: %w", q.Ref, err)
		}
	}
	if err := deliverAll(ctx, l); err != nil {
		return err
	}
	for _, q := range all {
		if _, err := l.Credit(ctx, q.Ref, false); err != nil && !errors.Is(err, budget.ErrNotReleasable) && !errors.Is(err, budget.ErrFinal) {
			return fmt.Errorf("credit %v: %w", q.Ref, err)
		}
	}
	for _, q := range all {
		if err := r.audit(ctx, l, q.Ref); err != nil {
			return err
		}
	}
	quotas, err := l.Tenants(ctx)
	if err != nil {
		return err
	}
	for _, q := range quotas {
		if q.Used != 0 {
			r.found("at the end, drift: tenant %s uses %d slots and has no reservation", q.Name, q.Used)
		}
	}
	return r.verify(ctx, "at the end")
}

// audit adds up one request's journal.
func (r *round) audit(ctx context.Context, l budget.Ledger, ref budget.Ref) error {
	q, err := l.Get(ctx, ref)
	if err != nil {
		return err
	}
	entries, err := l.Journal(ctx, ref)
	if err != nil {
		return err
	}
	sum, debits, credits := int64(0), 0, 0
	for _, e := range entries {
		sum += e.Slots
		switch e.Op {
		case budget.OpReserve:
			debits++
		case budget.OpRelease:
			credits++
		}
	}
	if !q.State.Final() || sum != 0 || debits != credits || debits > 1 {
		r.found("at the end, %s/%s is %s: %d debits by admission, %d last credits, %d slots in sum", ref.Tenant, ref.ID, q.State, debits, credits, sum)
	}
	return nil
}

// deliverAll carries out every intent, waiting out leases that were dropped.
func deliverAll(ctx context.Context, l budget.Ledger) error {
	var quiet time.Time
	for {
		claimed, err := l.Claim(ctx, "settler", 256, time.Minute)
		if err != nil {
			return fmt.Errorf("claim: %w", err)
		}
		for _, in := range claimed {
			if err := deliver(ctx, l, in); err != nil {
				return err
			}
		}
		switch {
		case len(claimed) > 0:
			quiet = time.Time{}
		case quiet.IsZero():
			quiet = time.Now()
		case time.Since(quiet) > 2*lease:
			return nil
		}
		if len(claimed) == 0 {
			time.Sleep(10 * time.Millisecond)
		}
	}
}
