// Package rediscache keeps the traffic account's cached answers in a Redis
// that several gateways share. Its bound in bytes is Redis' own: maxmemory
// with an eviction policy such as allkeys-lru.
package rediscache

import (
	"context"
	"encoding/hex"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"modeldock.io/internal/traffic/cache"
	"modeldock.io/internal/traffic/redislink"
)

// Cache implements cache.Store.
type Cache struct {
	link *redislink.Link
	log  *slog.Logger
}

// New returns a cache in the Redis behind link.
func New(link *redislink.Link, log *slog.Logger) *Cache { return &Cache{link, log} }

func name(k cache.Key) string { return "modeldock:answer:" + hex.EncodeToString(k[:]) }

// Get implements cache.Store. While Redis is away nothing is kept.
func (c *Cache) Get(ctx context.Context, k cache.Key) (cache.Answer, bool) {
	var raw []byte
	err := c.link.Do(ctx, func(ctx context.Context, rdb redis.UniversalClient) (err error) {
		raw, err = rdb.Get(ctx, name(k)).Bytes()
		return err
	})
	if err != nil {
		return cache.Answer{}, false
	}
	a, err := cache.Decode(raw)
	if err != nil {
		c.log.Warn("a cached answer is of no use; it is asked for anew", "error", err)
		return cache.Answer{}, false
	}
	return a, true
}

// Put implements cache.Store.
func (c *Cache) Put(ctx context.Context, k cache.Key, a cache.Answer, ttl time.Duration) {
	if len(a.Body) > cache.MaxAnswer || ttl < time.Millisecond {
		return
	}
	raw, err := a.Encode()
	if err != nil {
		c.log.Warn("an answer is not cached", "error", err)
		return
	}
	_ = c.link.Do(ctx, func(ctx context.Context, rdb redis.UniversalClient) error { // the link logs it
		return rdb.Set(ctx, name(k), raw, ttl).Err()
	})
}
