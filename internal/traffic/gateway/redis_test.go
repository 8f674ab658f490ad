//go:build redis

package gateway_test

import (
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/cache/rediscache"
	"modeldock.io/internal/traffic/gateway"
	"modeldock.io/internal/traffic/limit/redislimit"
	"modeldock.io/internal/traffic/redislink"
	"modeldock.io/test/redisserver"
)

// pair are two gateways with engines of their own and one Redis.
func pair(t *testing.T, limits traffic.Limits, engine http.HandlerFunc) (gateways [2]*bench, s *redisserver.Server, links [2]*redislink.Link) {
	t.Helper()
	s, err := redisserver.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop() })
	for i := range gateways {
		opts, err := redislink.Parse(s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		link := redislink.Open(opts, slog.New(slog.DiscardHandler))
		limiter := redislimit.New(redislimit.Config{Link: link, Gateways: 2, Clock: time.Now})
		t.Cleanup(func() { limiter.Close(); _ = link.Close() })
		gateways[i] = setup(t, func(c *gateway.Config) {
			c.Limiter, c.Results = limiter, rediscache.New(link, slog.New(slog.DiscardHandler))
		})
		gateways[i].publish(func(s *traffic.Snapshot) {
			s.Limits = map[string]traffic.Limits{"team-a": limits}
			s.Models[0].CacheTTL = time.Minute
		})
		gateways[i].engine("team-a", "m1", "v1", engine)
		links[i] = link
	}
	return gateways, s, links
}

func TestRedisIsSharedByGateways(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	gateways, _, _ := pair(t, traffic.Limits{Together: traffic.Rates{Concurrency: 6}}, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Openai-Hold") != "" {
			<-hold
		}
		whole(wholeChat)(w, r)
	})
	answers := make(chan result, 60)
	for i := range 60 {
		go func() { answers <- gateways[i%2].chat(keyA, helloChat, "Openai-Hold", "1") }()
	}
	for range 54 {
		if r := <-answers; r.status != 429 {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	close(hold)
	for range 6 {
		if r := <-answers; r.status != 200 {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	// The slots are free by the time their callers have the answer.
	if r := gateways[0].chat(keyA, helloChat); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
	first := gateways[0].chat(keyA, coldChat)
	if r := gateways[1].chat(keyA, coldChat); first.header.Get("X-Modeldock-Cache") != "miss" || r.header.Get("X-Modeldock-Cache") != "hit" || r.body != first.body {
		t.Errorf("the other gateway answers %v %q", r.header, r.body)
	}
}

// Redis dies and comes back three times under load: no request fails for that
// reason, every one is fast, and in the end every slot is free.
func TestRedisMayDieUnderLoad(t *testing.T) {
	t.Parallel()
	gateways, s, links := pair(t, traffic.Limits{Together: traffic.Rates{Concurrency: 50, TokensPerMinute: 1_000_000_000}}, events(chunkEvent("a"), stopEvent, usageEvent, doneEvent))
	stop := make(chan struct{})
	var callers sync.WaitGroup
	var served, left atomic.Int64
	for i := range 8 {
		callers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if n%10 == 9 { // one in ten leaves
					conn := gateways[i%2].dialRequest(helloStream)
					_ = conn.Close()
					left.Add(1)
					continue
				}
				r := gateways[i%2].chat(keyA, helloStream)
				if r.status != 200 || !strings.HasSuffix(r.body, doneEvent) {
					t.Errorf("%d %q", r.status, r.body)
					return
				}
				served.Add(1)
			}
		})
	}
	progress := func(what string) {
		t.Helper()
		before := served.Load()
		eventually(t, what, func() bool { return served.Load() > before+50 })
	}
	for range 3 {
		progress("traffic with Redis")
		s.Kill()
		progress("traffic without Redis")
		if err := s.Launch(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "Redis to be used again", func() bool { return links[0].Up() && links[1].Up() })
	}
	close(stop)
	callers.Wait()
	for _, g := range gateways {
		g.publish(func(s *traffic.Snapshot) {
			s.Limits = map[string]traffic.Limits{"team-a": {Together: traffic.Rates{Concurrency: 1}}}
		})
		eventually(t, "every slot to be free", func() bool { return g.chat(keyA, helloStream).status == 200 })
	}
	if left.Load() == 0 {
		t.Error("nobody left")
	}
}
