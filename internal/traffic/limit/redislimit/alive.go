package redislimit

import (
	"context"
	"maps"
	"time"

	"github.com/redis/go-redis/v9"

	"modeldock.io/internal/traffic/limit"
)

// keepAlive renews the slots that this gateway holds, three times in a lease.
// Those that it gave out alone are told to Redis once that is back.
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
	}
}

func (l *Limiter) renewAll() {
	l.mu.Lock()
	leases := maps.Clone(l.held)
	l.mu.Unlock()
	if len(leases) == 0 {
		return
	}
	ids := map[string][]any{}
	for id, lease := range leases {
		for i, key := range keys(lease.Tenant, lease.Scopes) {
			if i%2 == 1 {
				ids[key] = append(ids[key], id)
			}
		}
	}
	for key, held := range ids {
		args := append([]any{l.cfg.Lease.Milliseconds()}, held...)
		err := l.cfg.Link.Do(context.Background(), func(ctx context.Context, rdb redis.UniversalClient) error {
			return l.renew.Run(ctx, rdb, []string{key}, args...).Err()
		})
		if err != nil {
			return // the link has logged it, and the next round comes
		}
	}
	l.undo(leases)
}

// undo drops what was settled while it was being renewed.
func (l *Limiter) undo(renewed map[string]limit.Lease) {
	l.mu.Lock()
	maps.DeleteFunc(renewed, func(id string, _ limit.Lease) bool {
		_, still := l.held[id]
		return still
	})
	l.mu.Unlock()
	for _, lease := range renewed {
		_ = l.cfg.Link.Do(context.Background(), func(ctx context.Context, rdb redis.UniversalClient) error {
			return l.drop(ctx, rdb, lease)
		})
	}
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
