//go:build redis

package redismeasured_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"modeldock.io/internal/device/measured"
	"modeldock.io/internal/device/measured/redismeasured"
	"modeldock.io/test/redisserver"
)

const patience = 45 * time.Second

// bundle is one Redis, an agent's publisher and a scheduler's view.
type bundle struct {
	server   *redisserver.Server
	rdb      *redis.Client
	pub      *redismeasured.Publisher
	view     *redismeasured.View
	registry *prometheus.Registry
	ahead    *atomic.Int64 // nanoseconds that the view's clock is ahead

	mu      sync.Mutex
	changed []string
}

func setup(t *testing.T) *bundle {
	t.Helper()
	server, err := redisserver.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b := &bundle{server: server, registry: prometheus.NewRegistry(), ahead: &atomic.Int64{}}
	opts := &redis.Options{Addr: server.Addr}
	b.rdb = redis.NewClient(opts)
	b.pub = redismeasured.NewPublisher(opts, "node-a", time.Now)
	b.view, err = redismeasured.NewView(redismeasured.ViewConfig{
		Redis: opts, Clock: func() time.Time { return time.Now().Add(time.Duration(b.ahead.Load())) },
		Logger: slog.New(slog.DiscardHandler), Registerer: b.registry,
		Changed: func(nodes []string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.changed = append(b.changed, nodes...)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); b.view.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
		_, _ = b.pub.Close(), b.rdb.Close()
		_ = server.Stop()
	})
	return b
}

func (b *bundle) publish(t *testing.T, age time.Duration, mib int64) {
	t.Helper()
	eventually(t, "a sample is published", func() bool {
		return b.pub.Publish(t.Context(), time.Now().Add(-age), map[string]int64{"GPU-1": mib}) == nil
	})
}

func (b *bundle) uses(use measured.Use) float64 {
	families, err := b.registry.Gather()
	if err != nil {
		return -1
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "modeldock_gpu_measurements_used_total" && m.GetLabel()[0].GetValue() == string(use) {
				return m.GetCounter().GetValue()
			}
		}
	}
	return -1
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never came that %s", what)
		}
	}
}

// TestAFreshSampleIsAnAnswer publishes until the reader has it, as an agent does.
func TestAFreshSampleIsAnAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	eventually(t, "a fresh sample is read", func() bool {
		b.publish(t, 0, 1234)
		c, ok := b.view.Fresh("GPU-1")
		return ok && c.UsedMiB == 1234 && c.Node == "node-a" && c.Age < measured.FreshFor
	})
	if b.uses(measured.Fresh) != 1 || !b.view.Up() {
		t.Errorf("fresh counted %v times; up %v", b.uses(measured.Fresh), b.view.Up())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Contains(b.changed, "node-a") {
		t.Errorf("told of %v", b.changed)
	}
}

func TestAStaleSampleIsIgnoredAndCounted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.publish(t, time.Minute, 77)
	var c measured.Card
	eventually(t, "the sample is read", func() (ok bool) { c, ok = b.view.Card("GPU-1"); return ok })
	if c.Age < time.Minute || c.UsedMiB != 77 {
		t.Errorf("a minute after it was taken: %+v", c)
	}
	if _, ok := b.view.Fresh("GPU-1"); ok || b.uses(measured.Stale) != 1 {
		t.Errorf("it is an answer: %v; counted as stale %v times", ok, b.uses(measured.Stale))
	}
}

// TestASampleAgesWhileRedisIsAway also sees it come back, empty.
func TestASampleAgesWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	b := setup(t)
	eventually(t, "a fresh sample is read", func() bool {
		b.publish(t, 0, 5)
		_, ok := b.view.Fresh("GPU-1")
		return ok
	})
	b.server.Kill()
	eventually(t, "the loss is noticed", func() bool { return !b.view.Up() })
	if err := b.pub.Publish(t.Context(), time.Now(), nil); err == nil {
		t.Error("a sample was published to a Redis that is gone")
	}
	if _, ok := b.view.Card("GPU-1"); !ok {
		t.Error("what was known is forgotten")
	}
	b.ahead.Store(int64(time.Minute))
	if c, ok := b.view.Fresh("GPU-1"); ok {
		t.Errorf("a minute later it is still an answer: %+v", c)
	}
	if err := b.server.Launch(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the empty Redis is read", func() bool { _, ok := b.view.Card("GPU-1"); return b.view.Up() && !ok })
	if _, ok := b.view.Fresh("GPU-1"); ok || b.uses(measured.Absent) < 1 {
		t.Errorf("an empty Redis answers: %v; counted as absent %v times", ok, b.uses(measured.Absent))
	}
}

func TestAFlushedRedisIsNoAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.publish(t, 0, 5)
	eventually(t, "a sample is read", func() bool { _, ok := b.view.Card("GPU-1"); return ok })
	if err := b.rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the flush is seen", func() bool { _, ok := b.view.Card("GPU-1"); return !ok })
}

// TestWhatANodeSpoiltIsItsOwnLoss writes nonsense beside a good sample, one
// from the future, and one so old that it is taken away.
func TestWhatANodeSpoiltIsItsOwnLoss(t *testing.T) {
	t.Parallel()
	b := setup(t)
	future := time.Now().Add(time.Hour).UnixMicro()
	for node, text := range map[string]string{
		"odd": "hello", "odder": "12x {}", "negative": fmt.Sprintf(`%d {"GPU-N":-5}`, time.Now().UnixMicro()),
		"future": fmt.Sprintf(`%d {"GPU-F":5}`, future),
	} {
		if err := b.rdb.HSet(t.Context(), "modeldock:measured", node, text).Err(); err != nil {
			t.Fatal(err)
		}
	}
	b.publish(t, 0, 5)
	eventually(t, "the good sample is read", func() bool { _, ok := b.view.Card("GPU-1"); return ok })
	if _, ok := b.view.Card("GPU-N"); ok {
		t.Error("a negative use is an answer")
	}
	if c, ok := b.view.Fresh("GPU-F"); ok {
		t.Errorf("a sample from the future is an answer: %+v", c)
	}
	eventually(t, "what is long gone is taken away", func() bool {
		nodes, err := b.rdb.HKeys(t.Context(), "modeldock:measured").Result()
		return err == nil && len(nodes) == 3 && slices.Contains(nodes, "negative") && slices.Contains(nodes, "future") && slices.Contains(nodes, "node-a")
	})
}

func TestMetricsAreThereFromTheStart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if n, err := testutil.GatherAndCount(b.registry, "modeldock_gpu_measurements_used_total", "modeldock_gpu_measurements_up"); err != nil || n != 4 {
		t.Errorf("%d metrics (%v)", n, err)
	}
}
