// Package redislink is the gateways' connection to the Redis that they share.
// Redis is never the truth of anything: while it answers it is used, once it
// fails it is left alone, so that no request waits for it, and it is found
// again by itself.
package redislink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrAway says that Redis is not asked at the moment.
var ErrAway = errors.New("redis is away")

const (
	// answerWait is how long one answer may take before Redis counts as away.
	answerWait = 250 * time.Millisecond
	probeEvery = 200 * time.Millisecond
)

// Link is one process's connection.
type Link struct {
	rdb *redis.Client
	log *slog.Logger
	up  atomic.Bool

	mu      sync.Mutex
	probing bool
	closed  bool
	stop    chan struct{}
	done    sync.WaitGroup
	back    []func()
}

// Parse reads host:port or a redis:// or rediss:// URL.
func Parse(address string) (*redis.Options, error) {
	if !strings.Contains(address, "://") {
		address = "redis://" + address
	}
	opts, err := redis.ParseURL(address)
	if err != nil {
		var odd *url.Error
		if errors.As(err, &odd) {
			err = odd.Err // the error itself would show the password
		}
		return nil, fmt.Errorf("read the address of Redis: %w: write HOST:PORT, or redis://USER:PASSWORD@HOST:PORT/0", err)
	}
	return opts, nil
}

// Open returns a link without waiting for Redis: one that is away is no
// reason not to start.
func Open(opts *redis.Options, log *slog.Logger) *Link {
	own := *opts
	own.DialTimeout, own.ReadTimeout, own.WriteTimeout, own.PoolTimeout = answerWait, answerWait, answerWait, answerWait
	own.MaxRetries = -1 // what a lost answer means is for the caller to know
	own.ContextTimeoutEnabled = true
	own.PoolSize = 64
	l := &Link{rdb: redis.NewClient(&own), log: log, stop: make(chan struct{})}
	if err := l.ping(); err != nil {
		l.failed(err)
	} else {
		l.up.Store(true)
	}
	return l
}

// Up reports whether Redis answered last.
func (l *Link) Up() bool { return l.up.Load() }

// OnBack names one who is told whenever Redis is found again; f does not wait.
func (l *Link) OnBack(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.back = append(l.back, f)
}

// Do asks Redis once. The request's own end does not count: what it holds has
// to be given back all the same. ErrAway comes at once.
func (l *Link) Do(ctx context.Context, ask func(ctx context.Context, rdb redis.UniversalClient) error) error {
	if !l.up.Load() {
		return ErrAway
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWait)
	defer cancel()
	err := ask(ctx, l.rdb)
	if err != nil && !errors.Is(err, redis.Nil) {
		l.failed(err)
	}
	return err
}

// failed stops using Redis and begins to look for it.
func (l *Link) failed(err error) {
	l.up.Store(false)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.probing || l.closed {
		return
	}
	l.probing = true
	l.log.Warn("Redis is away: limits are counted by this gateway alone and answers are not cached", "error", err)
	l.done.Go(l.probe)
}

func (l *Link) ping() error {
	ctx, cancel := context.WithTimeout(context.Background(), answerWait)
	defer cancel()
	return l.rdb.Ping(ctx).Err()
}

func (l *Link) probe() {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-tick.C:
		}
		if l.ping() != nil {
			continue
		}
		l.mu.Lock()
		l.probing = false
		l.up.Store(true)
		told := l.back
		l.mu.Unlock()
		l.log.Info("Redis answers again")
		for _, f := range told {
			f()
		}
		return
	}
}

// Close ends the search and the connections.
func (l *Link) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.mu.Unlock()
	l.up.Store(false)
	close(l.stop)
	l.done.Wait()
	if err := l.rdb.Close(); err != nil {
		return fmt.Errorf("close the connections to Redis: %w", err)
	}
	return nil
}
