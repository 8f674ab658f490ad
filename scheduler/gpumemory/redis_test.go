//go:build redis

package gpumemory

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"modeldock.io/internal/device/measured/redismeasured"
	"modeldock.io/test/redisserver"
)

const patience = 45 * time.Second

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never came that %s", what)
		}
	}
}

// value is a metric's, of the series with this label's value; -1: there is none.
func value(t *testing.T, from prometheus.Gatherer, name, label string) float64 {
	t.Helper()
	all, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range all {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return -1
}

// Nothing correct depends on Redis: flushed, silent or gone, accounts alone
// count, and a metric says so; once it is there again, what is measured does.
func TestRedisComesAndGoes(t *testing.T) {
	t.Parallel()
	server, err := redisserver.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	options := &redis.Options{Addr: server.Addr}
	b := setup(t, node(t, "n", 24576))
	b.now = time.Now
	registry := prometheus.NewRegistry()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	if err := b.measure(ctx, server.Addr, registry); err != nil {
		t.Fatal(err)
	}

	// An agent that sees 16000 MiB in use, which nobody was given.
	var silent atomic.Bool
	pub := redismeasured.NewPublisher(options, "n", time.Now)
	go func() {
		defer func() { _ = pub.Close() }()
		for ctx.Err() == nil {
			if !silent.Load() {
				_ = pub.Publish(ctx, time.Now(), map[string]int64{"n-0": 16000}) // Redis may be away
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	fits := func() bool {
		asks := pod("asks", "12000")
		node, _, status := b.cycle(t, asks)
		if status.IsSuccess() {
			b.Unreserve(ctx, nil, asks, node)
		} else if !strings.Contains(status.Message(), "largest fragment 8576 MiB < 12000 MiB") {
			t.Fatalf("refused because of %q", status.Message())
		}
		return status.IsSuccess()
	}
	const uses, up = "modeldock_gpu_measurements_used_total", "modeldock_gpu_measurements_up"
	counted := func() { t.Helper(); eventually(t, "the memory of nobody counts", func() bool { return !fits() }) }
	ignored := func(why string) {
		t.Helper()
		eventually(t, "accounts alone count: "+why, fits)
	}
	counted()
	if v := value(t, registry, up, ""); v != 1 {
		t.Errorf("%s is %v while Redis answers", up, v)
	}

	silent.Store(true)
	absent := value(t, registry, uses, "absent")
	rdb := redis.NewClient(options)
	t.Cleanup(func() { _ = rdb.Close() })
	if err := rdb.FlushAll(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	ignored("Redis was flushed")
	eventually(t, "the absence is counted", func() bool { return value(t, registry, uses, "absent") > absent })
	silent.Store(false)
	counted()

	silent.Store(true)
	stale := value(t, registry, uses, "stale")
	ignored("the agent is silent")
	eventually(t, "the staleness is counted", func() bool { return value(t, registry, uses, "stale") > stale })
	silent.Store(false)
	counted()

	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	ignored("Redis does not answer")
	eventually(t, "the metric says that it is away", func() bool { return value(t, registry, up, "") == 0 })
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	counted()

	server.Kill()
	ignored("Redis is gone")
	if err := server.Launch(ctx); err != nil {
		t.Fatal(err)
	}
	counted()
}
