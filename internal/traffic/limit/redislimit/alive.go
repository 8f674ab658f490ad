package redislimit

import (
	"context"
	"maps"
	"time"

	"github.com/redis/go-redis/v9"

	"modeldock.io/internal/traffic/limit"
)

// keepAlive renews the slots that this gateway holds, three times in a lease.
// Those that it gave out alone are told to Redis once that is back, and what
// Redis could not be told of ends is told then.
func (l *Limiter) keepAlive() {
	tick := time.NewTicker(l.cfg.Lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-tick.C:
		case <-l.back:
		}
		l.renewAll()
		l.payAll()
	}
}

func (l *Limiter) renewAll() {
	l.mu.Lock()
	held := maps.Clone(l.held)
	for id, h := range held {
		l.held[id] = holding{h.lease, true}
	}
	l.mu.Unlock()
	if len(held) == 0 {
		return
	}
	ids := map[string][]any{}
	for id, h := range held {
		for i, key := range keys(h.lease.Tenant, h.lease.Scopes) {
			if i%2 == 1 {
				ids[key] = append(ids[key], id)
			}
		}
	}
	for key, members := range ids {
		args := append([]any{l.cfg.Lease.Milliseconds()}, members...)
		err := l.cfg.Link.Do(context.Background(), func(ctx context.Context, rdb redis.UniversalClient) error {
			return l.renew.Run(ctx, rdb, []string{key}, args...).Err()
		})
		if err != nil {
			break // the link has logged it, and the next round comes
		}
	}
	// What was settled while it was being renewed has to go once more, also
	// where the answer was lost.
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, h := range held {
		if _, still := l.held[id]; !still {
			l.owe(debt{lease: h.lease, drop: true})
		}
	}
}

// holding is a running request's lease.
type holding struct {
	lease limit.Lease
	told  bool // Redis may know of it
}

// debt is an end that Redis was not told of, or not for certain.
type debt struct {
	lease limit.Lease
	used  int64 // tokens
	drop  bool  // only the slots: the buckets know nothing of it
	since time.Time
}

// owe remembers a debt; a settlement, which says more, stays before a drop.
// The caller holds l.mu.
func (l *Limiter) owe(d debt) {
	if was, known := l.owed[d.lease.ID]; known && !was.drop {
		return
	}
	d.since = l.cfg.Clock()
	l.owed[d.lease.ID] = d
}

// payLater has a debt paid by keepAlive as soon as Redis answers.
func (l *Limiter) payLater(d debt) {
	l.mu.Lock()
	l.owe(d)
	l.mu.Unlock()
	if l.cfg.Link.Up() { // it came back before the debt was there
		l.wake()
	}
}

// payAll tells Redis of every end that it missed. It forgets by itself what is
// older than a lease.
func (l *Limiter) payAll() {
	l.mu.Lock()
	debts := maps.Clone(l.owed)
	l.mu.Unlock()
	for id, d := range debts {
		if l.cfg.Clock().Sub(d.since) <= 2*l.cfg.Lease && l.pay(context.Background(), d) != nil {
			return // Redis is away again
		}
		l.mu.Lock()
		if l.owed[id].since.Equal(d.since) {
			delete(l.owed, id)
		}
		l.mu.Unlock()
	}
}

func (l *Limiter) pay(ctx context.Context, d debt) error {
	args := make([]any, 0, 2+5*len(d.lease.Scopes))
	args = append(args, d.lease.ID, d.used)
	for _, s := range d.lease.Scopes {
		args = append(args, s.Rates.TokensPerMinute, s.Rates.TokensPerDay, s.Window.Seconds(), s.Reserved, s.Day)
	}
	return l.cfg.Link.Do(ctx, func(ctx context.Context, rdb redis.UniversalClient) error {
		if d.drop {
			return l.drop(ctx, rdb, d.lease)
		}
		return l.settle.Run(ctx, rdb, keys(d.lease.Tenant, d.lease.Scopes), args...).Err()
	})
}

// drop takes a request's slots away and leaves the buckets alone.
func (l *Limiter) drop(ctx context.Context, rdb redis.UniversalClient, lease limit.Lease) error {
	for i, key := range keys(lease.Tenant, lease.Scopes) {
		if i%2 == 1 {
			if err := rdb.ZRem(ctx, key, lease.ID).Err(); err != nil {
				return err
			}
		}
	}
	return nil
}
