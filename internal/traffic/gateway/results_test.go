package gateway_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/cache"
	"modeldock.io/internal/traffic/gateway"
)

// cached is a gateway with a cache in front of an engine that numbers its
// answers.
type cached struct {
	*bench
	store  *cache.Memory
	served atomic.Int64
}

func setupCache(t *testing.T, answer func(n int64, w http.ResponseWriter, r *http.Request)) *cached {
	t.Helper()
	c := &cached{store: cache.NewMemory(time.Now, cache.DefaultBytes)}
	c.bench = setup(t, func(cfg *gateway.Config) { cfg.Results = c.store })
	c.publish(func(s *traffic.Snapshot) {
		s.Models[0].CacheTTL = time.Minute
		s.Grants = map[traffic.GrantKey]struct{}{{Owner: "team-a", Model: "m1", Grantee: "team-b"}: {}}
	})
	c.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) { answer(c.served.Add(1), w, r) })
	return c
}

// ask sends a request and checks what the cache did.
func (c *cached) ask(key, body, want string, header ...string) result {
	c.t.Helper()
	r := c.chat(key, body, header...)
	if got := r.header.Get("X-Modeldock-Cache"); got != want {
		c.t.Errorf("%s: the cache says %q, want %q", body, got, want)
	}
	return r
}

func numbered(n int64, w http.ResponseWriter, r *http.Request) {
	whole(strings.Replace(wholeChat, "hello", fmt.Sprint("answer ", n), 1))(w, r)
}

func numberedStream(n int64, w http.ResponseWriter, r *http.Request) {
	events(roleEvent, chunkEvent(fmt.Sprint("answer ", n)), stopEvent, usageEvent, doneEvent)(w, r)
}

const (
	coldChat   = `{"model":"m1","temperature":0,"messages":[{"role":"user","content":"hi"}]}`
	coldStream = `{"model":"m1","temperature":0,"stream":true,"messages":[{"role":"user","content":"hi"}]}`
)

func TestSameRequestIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	c := setupCache(t, numbered)
	first := c.ask(keyA, coldChat, "miss")
	spelled := `{ "messages":[{"role":"user","content":"hi"}], "stream":false, "model":"team-a/m1@v1", "temperature":0 }`
	second := c.ask(keyA, spelled, "hit")
	if second.status != 200 || second.body != first.body || second.header.Get("Content-Length") != strconv.Itoa(len(first.body)) || second.header.Get("X-Modeldock-Version") != "v1" {
		t.Errorf("%d %q %v, first %q", second.status, second.body, second.header, first.body)
	}
	if r := c.record(second.header.Get("X-Request-Id")); r.Outcome != traffic.Completed || r.EndpointUID != "" || !r.FirstContentAt.IsZero() || r.DoneAt.IsZero() {
		t.Errorf("record %+v", r)
	}
	if n := c.served.Load(); n != 1 {
		t.Errorf("the engine was asked %d times", n)
	}
	c.ask(keyA, strings.Replace(coldChat, "hi", "ho", 1), "miss")
	if m := c.metrics("modeldock_gateway_result_cache_total"); m["hit"] != 1 || m["miss"] != 2 {
		t.Errorf("metrics %v", m)
	}
}

// Streams and whole answers are kept apart, and replayed as what they are.
func TestStreamsAreReplayedAsStreams(t *testing.T) {
	t.Parallel()
	c := setupCache(t, func(n int64, w http.ResponseWriter, r *http.Request) {
		if n == 2 {
			numbered(n, w, r)
			return
		}
		numberedStream(n, w, r)
	})
	first := c.ask(keyA, coldStream, "miss")
	c.ask(keyA, coldChat, "miss")
	withUsage := strings.Replace(coldStream, `{`, `{"stream_options":{"include_usage":true},`, 1)
	third := c.ask(keyA, withUsage, "miss")
	again := c.ask(keyA, coldStream, "hit")
	if again.body != first.body || again.header.Get("Content-Type") != "text/event-stream" || !strings.HasSuffix(again.body, doneEvent) || strings.Contains(again.body, "usage") {
		t.Errorf("%q %v", again.body, again.header)
	}
	if usage := c.ask(keyA, withUsage, "hit"); usage.body != third.body || !strings.Contains(usage.body, `"usage"`) {
		t.Errorf("%q", usage.body)
	}
	if r := c.ask(keyA, coldChat, "hit"); !strings.Contains(r.body, "answer 2") {
		t.Errorf("%q", r.body)
	}
}

// C119: nobody is answered what somebody else asked, and a permission that is gone
// opens no cache.
func TestCacheNeverCrossesTenants(t *testing.T) {
	t.Parallel()
	c := setupCache(t, numbered)
	c.ask(keyA, coldChat, "miss")
	c.ask(keyB, coldChat, "miss")
	c.ask(keyB, coldChat, "hit")
	admin := c.ask(keyAdmin, coldChat, "miss")
	if c.served.Load() != 3 || !strings.Contains(admin.body, "answer 3") {
		t.Errorf("%d answers were made", c.served.Load())
	}
	c.publish(func(s *traffic.Snapshot) { s.Grants = nil })
	if r := c.ask(keyB, coldChat, ""); r.status != 404 {
		t.Errorf("without the grant: %d %s", r.status, r.body)
	}
	// Another release of the same name and version answers anew.
	c.publish(func(s *traffic.Snapshot) { s.Models[0].ObjectUID = "obj-new" })
	c.ask(keyA, coldChat, "miss")
	c.publish(func(s *traffic.Snapshot) { s.Models[0].CacheTTL = 0 })
	c.ask(keyA, coldChat, "")
}

func TestWhatIsNotAskedOfTheCache(t *testing.T) {
	t.Parallel()
	c := setupCache(t, numbered)
	for _, body := range []string{helloChat, strings.Replace(coldChat, `:0`, `:0.7`, 1), strings.Replace(coldChat, `{`, `{"top_p":1,"top_p":1,`, 1)} {
		c.ask(keyA, body, "bypass")
		c.ask(keyA, body, "bypass")
	}
	if n := c.served.Load(); n != 6 {
		t.Errorf("%d answers were made", n)
	}
	c.ask(keyA, strings.Replace(helloChat, `{`, `{"seed":7,`, 1), "miss")
	c.ask(keyA, strings.Replace(helloChat, `{`, `{"seed":7,`, 1), "hit")
	c.ask(keyA, coldChat, "bypass", "Cache-Control", "private, No-Store")
	c.ask(keyA, coldChat, "miss")
	c.ask(keyA, coldChat, "bypass", "Cache-Control", "no-store")
	r := c.ask(keyA, coldChat, "bypass", "Cache-Control", "no-cache")
	if hit := c.ask(keyA, coldChat, "hit"); hit.body != r.body {
		t.Errorf("no-cache did not renew what is kept: %q, then %q", r.body, hit.body)
	}
}

// Errors, cut and cancelled answers, and what an engine does not want kept.
func TestOnlyWholeAnswersAreKept(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request){
		"error": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			whole(`{"error":{"message":"x"}}`)(w, r)
		},
		"error behind 200": whole(`{"error":{"message":"x"}}`),
		"not finished":     whole(`{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":null}]}`),
		"no-store": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "no-store")
			whole(wholeChat)(w, r)
		},
		"cut": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "9999")
			whole(wholeChat)(w, r)
		},
		"too large": whole(strings.Replace(wholeChat, "hello", strings.Repeat("x", cache.MaxAnswer), 1)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setupCache(t, func(_ int64, w http.ResponseWriter, r *http.Request) { answer(w, r) })
			for range 2 {
				c.ask(keyA, coldChat, "miss")
			}
			if c.store.Bytes() != 0 {
				t.Errorf("%d bytes are kept", c.store.Bytes())
			}
		})
	}
	for name, parts := range map[string][]string{
		"cut stream": {roleEvent, chunkEvent("a")}, "error event": {chunkEvent("a"), `data: {"error":{"message":"x"}}` + "\n\n"},
		"no end": {chunkEvent("a"), stopEvent}, "unfinished choice": {chunkEvent("a"), doneEvent}, "nothing": {doneEvent},
		"error after the end of a choice": {chunkEvent("a"), stopEvent, `data: {"error":{"message":"x"}}` + "\n\n", doneEvent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setupCache(t, func(_ int64, w http.ResponseWriter, r *http.Request) { events(parts...)(w, r) })
			for range 2 {
				c.ask(keyA, coldStream, "miss")
			}
			if c.store.Bytes() != 0 {
				t.Errorf("%d bytes are kept", c.store.Bytes())
			}
		})
	}
}

// A long answer, of more than one read, is kept as well.
func TestLongAnswerIsKept(t *testing.T) {
	t.Parallel()
	long := strings.Replace(wholeChat, "hello", strings.Repeat("x", 300_000), 1)
	c := setupCache(t, func(_ int64, w http.ResponseWriter, r *http.Request) { whole(long)(w, r) })
	c.ask(keyA, coldChat, "miss")
	eventually(t, "it to be kept", func() bool { return c.store.Bytes() > 0 })
	if r := c.ask(keyA, coldChat, "hit"); r.body != long {
		t.Errorf("%d bytes came back of %d", len(r.body), len(long))
	}
}
