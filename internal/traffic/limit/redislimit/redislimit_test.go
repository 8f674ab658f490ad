//go:build redis

package redislimit_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/limit"
	"modeldock.io/internal/traffic/limit/redislimit"
	"modeldock.io/internal/traffic/redislink"
	"modeldock.io/test/redisserver"
)

const patience = 20 * time.Second

func server(t *testing.T, settings ...string) *redisserver.Server {
	t.Helper()
	s, err := redisserver.Start(t.Context(), settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop() })
	return s
}

// instance is one gateway's limiter.
type instance struct {
	*redislimit.Limiter
	link *redislink.Link
	die  func()
}

func gateway(t *testing.T, address string, of int, lease time.Duration) instance {
	t.Helper()
	opts, err := redislink.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	link := redislink.Open(opts, slog.New(slog.DiscardHandler))
	l := redislimit.New(redislimit.Config{Link: link, Gateways: of, Lease: lease, Clock: time.Now})
	die := sync.OnceFunc(func() {
		l.Close()
		_ = link.Close()
	})
	t.Cleanup(die)
	return instance{l, link, die}
}

var number atomic.Int64 //nolint:gochecknoglobals // ids of the tests' requests

func demand(limits traffic.Limits, tokens int64) limit.Demand {
	return limit.Demand{ID: fmt.Sprint("r", number.Add(1)), Tenant: "team-a", Key: "k", Limits: limits, Tokens: tokens}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// burst lets many callers on all gateways ask at once and returns what was
// admitted.
func burst(gateways []instance, n int, limits traffic.Limits, tokens int64) (admitted []limit.Decision, by []instance) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range n {
		g := gateways[i%len(gateways)]
		all.Go(func() {
			if d := g.Take(context.Background(), demand(limits, tokens)); d.Refusal == nil {
				mu.Lock()
				defer mu.Unlock()
				admitted, by = append(admitted, d), append(by, g)
			}
		})
	}
	all.Wait()
	return admitted, by
}

func TestRedisAdmitsTheLastOneOnce(t *testing.T) {
	t.Parallel()
	s := server(t)
	var gateways []instance
	for range 4 {
		gateways = append(gateways, gateway(t, s.Addr, 4, 0))
	}
	for name, c := range map[string]struct {
		limits traffic.Limits
		tokens int64
		want   int
	}{
		"requests":     {traffic.Limits{Together: traffic.Rates{RequestsPerMinute: 25}}, 0, 25},
		"tokens":       {traffic.Limits{Together: traffic.Rates{TokensPerMinute: 100}}, 7, 14},
		"daily tokens": {traffic.Limits{Together: traffic.Rates{TokensPerDay: 100}}, 9, 11},
		"at once":      {traffic.Limits{Together: traffic.Rates{Concurrency: 13}}, 0, 13},
		"of a key":     {traffic.Limits{Together: traffic.Rates{Concurrency: 50}, PerKey: traffic.Rates{Concurrency: 5}}, 0, 5},
	} {
		rdb := redis.NewClient(&redis.Options{Addr: s.Addr})
		if err := rdb.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		_ = rdb.Close()
		admitted, by := burst(gateways, 200, c.limits, c.tokens)
		// A minute's bucket refills while the burst lasts, by very little.
		if n := len(admitted); n < c.want || n > c.want+1 {
			t.Errorf("%s: %d of 200 were admitted, want %d", name, n, c.want)
		}
		for i, d := range admitted {
			by[i].Settle(t.Context(), d.Lease, 0)
		}
		if c.limits.Together.Concurrency > 0 || c.tokens > 0 {
			again, _ := burst(gateways, 200, c.limits, c.tokens)
			if n := len(again); n < c.want || n > c.want+1 {
				t.Errorf("%s: after all was given back %d were admitted, want %d", name, n, c.want)
			}
		}
	}
	for _, g := range gateways {
		if g.Alone() != 0 {
			t.Errorf("%d checks were made without Redis", g.Alone())
		}
	}
}

// What Redis decides and says is what memory would, word for word.
func TestRedisSpeaksAsMemoryDoes(t *testing.T) {
	t.Parallel()
	g := gateway(t, server(t).Addr, 1, 0)
	now := time.Now()
	memory := limit.NewMemory(func() time.Time { return now })
	limits := traffic.Limits{Together: traffic.Rates{RequestsPerMinute: 5, TokensPerMinute: 1000, TokensPerDay: 5000}, PerKey: traffic.Rates{Concurrency: 3}, Window: 30 * time.Second}
	for n := range 6 {
		d := demand(limits, 100+int64(n))
		a, b := g.Take(t.Context(), d), memory.Take(t.Context(), d)
		if (a.Refusal == nil) != (b.Refusal == nil) || a.Requests.Remaining != b.Requests.Remaining || a.Requests.Limit != b.Requests.Limit || a.Tokens.Remaining-b.Tokens.Remaining > 5 {
			t.Fatalf("request %d: Redis says %+v, memory %+v", n, a, b)
		}
		if a.Refusal != nil && a.Refusal.What != b.Refusal.What {
			t.Fatalf("request %d: Redis refuses by %+v, memory by %+v", n, a.Refusal, b.Refusal)
		}
		if a.Refusal == nil && n == 0 {
			g.Settle(t.Context(), a.Lease, 900)
			memory.Settle(t.Context(), b.Lease, 900)
		}
	}
}

// While Redis is away, killed or hanging, nobody waits for it: each gateway
// counts against its share. It is used again as soon as it is back, and then
// knows what is running.
// A debt is one bucket at most, also one that lay there before; and who is
// forgotten begins anew on every gateway.
func TestRedisBoundsDebtsAndForgets(t *testing.T) {
	t.Parallel()
	s := server(t)
	one, two := gateway(t, s.Addr, 2, 0), gateway(t, s.Addr, 2, 0)
	limits := traffic.Limits{Together: traffic.Rates{TokensPerMinute: 600}, PerKey: traffic.Rates{TokensPerDay: 10_000}}
	debt := func() time.Duration {
		d := two.Take(t.Context(), demand(limits, 600))
		if d.Refusal == nil || d.Refusal.What != limit.Tokens {
			t.Fatalf("got %+v, want a refusal by tokens per minute", d.Refusal)
		}
		return d.Refusal.Wait
	}
	one.Settle(t.Context(), one.Take(t.Context(), demand(limits, 10)).Lease, 9000)
	if wait := debt(); wait > 2*time.Minute {
		t.Errorf("the debt takes %s", wait)
	}
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer func() { _ = rdb.Close() }()
	if err := rdb.HSet(t.Context(), "modeldock:limit:{team-a}", "t", "-1000000000000").Err(); err != nil {
		t.Fatal(err)
	}
	if wait := debt(); wait > 2*time.Minute {
		t.Errorf("the debt of before takes %s", wait)
	}
	one.Forget(t.Context(), "team-a", []string{"k"})
	if d := two.Take(t.Context(), demand(limits, 10_000)); d.Refusal != nil {
		t.Errorf("refused after it was forgotten: %+v", d.Refusal)
	}
}

func TestRedisAwayFailsOpenAtAShare(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]struct {
		begin, end func(t *testing.T, s *redisserver.Server)
	}{
		"killed": {
			func(_ *testing.T, s *redisserver.Server) { s.Kill() },
			func(t *testing.T, s *redisserver.Server) { ok(t, s.Launch(context.Background())) },
		},
		"hanging": {
			func(t *testing.T, s *redisserver.Server) { ok(t, s.Pause()) },
			func(t *testing.T, s *redisserver.Server) { ok(t, s.Resume()) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server(t)
			gateways := []instance{gateway(t, s.Addr, 2, time.Minute), gateway(t, s.Addr, 2, time.Minute)}
			limits := traffic.Limits{Together: traffic.Rates{Concurrency: 10}}
			before, beforeBy := burst(gateways, 50, limits, 0)
			if len(before) != 10 {
				t.Fatalf("%d were admitted, want 10", len(before))
			}
			outage.begin(t, s)
			for _, g := range gateways { // the first call finds out
				d := g.Take(t.Context(), demand(limits, 0))
				g.Settle(t.Context(), d.Lease, 0)
				if g.link.Up() || !d.Lease.Local {
					t.Fatalf("the outage was not noticed: %+v", d)
				}
			}
			during, by := burst(gateways, 50, limits, 0)
			if len(during) != 10 { // a half of 10 on each of two
				t.Fatalf("during the outage %d were admitted, want 10", len(during))
			}
			if gateways[0].Alone() == 0 {
				t.Error("nothing was counted for the metric")
			}
			for i := range 6 {
				by[i].Settle(t.Context(), during[i].Lease, 0)
			}
			outage.end(t, s)
			eventually(t, "Redis to be used again", func() bool { return gateways[0].link.Up() && gateways[1].link.Up() })
			// 10 from before and 4 from the outage still run: that is too many already.
			eventually(t, "Redis to know what runs", func() bool {
				d := gateways[0].Take(t.Context(), demand(limits, 0))
				if d.Refusal == nil {
					gateways[0].Settle(t.Context(), d.Lease, 0)
				}
				return d.Refusal != nil && d.Refusal.What == limit.Concurrency
			})
			for i, d := range during[6:] {
				by[6+i].Settle(t.Context(), d.Lease, 0)
			}
			for i, d := range before {
				beforeBy[i].Settle(t.Context(), d.Lease, 0)
			}
			eventually(t, "all slots to come back", func() bool {
				after, by := burst(gateways, 50, limits, 0)
				for i, d := range after {
					by[i].Settle(t.Context(), d.Lease, 0)
				}
				return len(after) == 10
			})
		})
	}
}

// What ends while Redis hangs is told to it afterwards, long before its lease
// ends, and so is a question whose answer alone was lost.
func TestRedisHearsOfWhatEndedMeanwhile(t *testing.T) {
	t.Parallel()
	s := server(t)
	g := gateway(t, s.Addr, 2, time.Hour)
	limits := traffic.Limits{Together: traffic.Rates{Concurrency: 2}}
	running, _ := burst([]instance{g}, 1, limits, 0)
	ok(t, s.Pause())
	// The hanging server has the question and answers it once it goes on.
	lost := g.Take(t.Context(), demand(limits, 0))
	if lost.Refusal != nil || !lost.Lease.Local {
		t.Fatalf("%+v", lost)
	}
	g.Settle(t.Context(), lost.Lease, 0)
	g.Settle(t.Context(), running[0].Lease, 0)
	ok(t, s.Resume())
	eventually(t, "Redis to be used again", g.link.Up)
	eventually(t, "both slots", func() bool {
		both, by := burst([]instance{g}, 2, limits, 0)
		for i, d := range both {
			by[i].Settle(t.Context(), d.Lease, 0)
		}
		return len(both) == 2
	})
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A gateway that dies gives its slots back a lease later; one that lives keeps
// them for as long as its requests run.
func TestRedisForgetsTheDead(t *testing.T) {
	t.Parallel()
	s := server(t)
	const lease = 900 * time.Millisecond
	dead, alive := gateway(t, s.Addr, 2, lease), gateway(t, s.Addr, 2, lease)
	limits := traffic.Limits{Together: traffic.Rates{Concurrency: 4}}
	burst([]instance{dead}, 2, limits, 0)
	kept, _ := burst([]instance{alive}, 2, limits, 0)
	if len(kept) != 2 {
		t.Fatalf("%d were admitted, want 2", len(kept))
	}
	dead.die()
	began := time.Now()
	eventually(t, "the dead one's slots", func() bool {
		d := alive.Take(t.Context(), demand(limits, 0))
		return d.Refusal == nil
	})
	if early := time.Since(began); early < lease/3 {
		t.Errorf("the slots of one that was alive until now were free after %s", early)
	}
	eventually(t, "the second of them", func() bool { return alive.Take(t.Context(), demand(limits, 0)).Refusal == nil })
	// Three leases later the living one still holds all four.
	for deadline := time.Now().Add(3 * lease); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if d := alive.Take(t.Context(), demand(limits, 0)); d.Refusal == nil {
			t.Fatal("a running request lost its slot")
		}
	}
}

func TestRedisWithAPassword(t *testing.T) {
	t.Parallel()
	s := server(t, "--requirepass", "geheim")
	limits := traffic.Limits{Together: traffic.Rates{Concurrency: 1}}
	with, without := gateway(t, "redis://:geheim@"+s.Addr, 1, 0), gateway(t, s.Addr, 1, 0)
	if d := with.Take(t.Context(), demand(limits, 0)); d.Lease.Local || d.Refusal != nil {
		t.Errorf("with the password: %+v", d)
	}
	if d := without.Take(t.Context(), demand(limits, 0)); !d.Lease.Local || d.Refusal != nil {
		t.Errorf("without it: %+v", d)
	}
}
