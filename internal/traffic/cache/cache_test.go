package cache_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"modeldock.io/internal/traffic/cache"
)

func question() cache.Question {
	return cache.Question{Tenant: "a", Owner: "o", Model: "m", Version: "v1", ObjectUID: "u", Path: "/v1/chat/completions", Body: []byte("{}")}
}

// Every part of a question counts, and no part can pose as its neighbour.
func TestEveryPartCounts(t *testing.T) {
	t.Parallel()
	seen := map[cache.Key]string{question().Key(): "as it is"}
	for name, change := range map[string]func(*cache.Question){
		"tenant": func(q *cache.Question) { q.Tenant = "b" }, "owner": func(q *cache.Question) { q.Owner = "b" },
		"model": func(q *cache.Question) { q.Model = "b" }, "version": func(q *cache.Question) { q.Version = "b" },
		"object": func(q *cache.Question) { q.ObjectUID = "b" }, "path": func(q *cache.Question) { q.Path = "b" },
		"stream": func(q *cache.Question) { q.Stream = true }, "usage": func(q *cache.Question) { q.Usage = true },
		"body":  func(q *cache.Question) { q.Body = []byte("{ }") },
		"parts": func(q *cache.Question) { q.Tenant, q.Owner = "ao", "" },
	} {
		q := question()
		change(&q)
		if other, twice := seen[q.Key()]; twice {
			t.Errorf("%s has the key of %s", name, other)
		}
		seen[q.Key()] = name
	}
}

func TestMemoryForgets(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	m := cache.NewMemory(func() time.Time { return now }, 4000)
	ctx := t.Context()
	key := func(n int) cache.Key { q := question(); q.Tenant = fmt.Sprint(n); return q.Key() }
	body := cache.Answer{ContentType: "x", Body: make([]byte, 500)}
	for n := range 4 {
		m.Put(ctx, key(n), body, time.Second)
	}
	if _, ok := m.Get(ctx, key(0)); ok {
		t.Error("the oldest stayed over the bound")
	}
	if _, ok := m.Get(ctx, key(1)); !ok {
		t.Error("the second is gone")
	}
	m.Put(ctx, key(4), body, time.Second)
	if _, ok := m.Get(ctx, key(1)); !ok {
		t.Error("what was used last was dropped")
	}
	m.Put(ctx, key(5), cache.Answer{Body: make([]byte, 5000)}, time.Second)
	if _, ok := m.Get(ctx, key(5)); ok {
		t.Error("an answer larger than all was kept")
	}
	now = now.Add(time.Second)
	for n := range 5 {
		if _, ok := m.Get(ctx, key(n)); ok {
			t.Errorf("%d outlived its time", n)
		}
	}
}

// The bound holds whatever is kept, and nothing is lost from the account.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := cache.NewMemory(time.Now, 8192)
		for range rapid.IntRange(1, 60).Draw(t, "puts") {
			q := question()
			q.Tenant = fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "key"))
			m.Put(context.Background(), q.Key(), cache.Answer{Body: make([]byte, rapid.IntRange(0, 9000).Draw(t, "size"))}, time.Minute)
			if m.Bytes() > 8192 || m.Bytes() < 0 {
				t.Fatalf("%d bytes are kept", m.Bytes())
			}
		}
	})
}

func TestEncodedAnswersAreWhole(t *testing.T) {
	t.Parallel()
	a := cache.Answer{ContentType: "text/event-stream", Body: []byte("data: a\n\ndata: [DONE]\n\n"), At: time.Unix(5, 0).UTC()}
	raw, err := a.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := cache.Decode(raw)
	if err != nil || !reflect.DeepEqual(got, a) {
		t.Fatalf("%+v, %v", got, err)
	}
	for n := range raw {
		if _, err := cache.Decode(raw[:n]); err == nil {
			t.Fatalf("the first %d bytes of %d passed for an answer", n, len(raw))
		}
	}
	if _, err := cache.Decode([]byte(strings.Replace(string(raw), "data: a", "data: b", 1))); err == nil {
		t.Error("a spoiled answer passed")
	}
}
