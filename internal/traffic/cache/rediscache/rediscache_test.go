//go:build redis

package rediscache_test

import (
	"log/slog"
	"testing"
	"time"

	"modeldock.io/internal/traffic/cache"
	"modeldock.io/internal/traffic/cache/rediscache"
	"modeldock.io/internal/traffic/redislink"
	"modeldock.io/test/redisserver"
)

// Two gateways share what one of them has kept, for as long as it may be kept;
// without Redis nothing is kept and nobody waits.
func TestRedisKeepsForAllGateways(t *testing.T) {
	t.Parallel()
	s, err := redisserver.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop() })
	open := func() (*rediscache.Cache, *redislink.Link) {
		opts, err := redislink.Parse(s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		link := redislink.Open(opts, slog.New(slog.DiscardHandler))
		t.Cleanup(func() { _ = link.Close() })
		return rediscache.New(link, slog.New(slog.DiscardHandler)), link
	}
	one, link := open()
	two, _ := open()
	key := cache.Question{Tenant: "a"}.Key()
	answer := cache.Answer{ContentType: "application/json", Body: []byte(`{"a":1}`), At: time.Unix(7, 0).UTC()}
	one.Put(t.Context(), key, answer, time.Minute)
	if got, ok := two.Get(t.Context(), key); !ok || string(got.Body) != string(answer.Body) || !got.At.Equal(answer.At) || got.ContentType != answer.ContentType {
		t.Fatalf("the other gateway got %+v, %t", got, ok)
	}
	if _, ok := two.Get(t.Context(), cache.Question{Tenant: "b"}.Key()); ok {
		t.Error("another question has an answer")
	}
	short := cache.Question{Tenant: "c"}.Key()
	one.Put(t.Context(), short, answer, 20*time.Millisecond)
	eventually(t, "an answer to be forgotten", func() bool { _, ok := two.Get(t.Context(), short); return !ok })
	one.Put(t.Context(), short, cache.Answer{Body: make([]byte, cache.MaxAnswer+1)}, time.Minute)
	if _, ok := two.Get(t.Context(), short); ok {
		t.Error("an answer that is too large was kept")
	}
	s.Kill()
	if _, ok := one.Get(t.Context(), key); ok || link.Up() {
		t.Errorf("without Redis: found %t, up %t", ok, link.Up())
	}
	one.Put(t.Context(), key, answer, time.Minute)
	if err := s.Launch(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Redis to be used again", func() bool {
		one.Put(t.Context(), key, answer, time.Minute)
		_, ok := one.Get(t.Context(), key)
		return ok
	})
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
