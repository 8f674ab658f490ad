package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"
)

// Ask sends a chat that is no stream to the gateway; header pairs follow.
func (c Caller) Ask(model string, extra map[string]any, header ...string) Answer {
	c.t.Helper()
	body := map[string]any{"model": model, "messages": []map[string]string{{"role": "user", "content": "hello"}}}
	for k, v := range extra {
		body[k] = v
	}
	data, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, c.h.Gateway()+"/v1/chat/completions", bytes.NewReader(data))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.h.Key(c.who))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatalf("chat with %s: %v", model, err)
	}
	defer func() { _ = resp.Body.Close() }()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatalf("chat with %s: %v", model, err)
	}
	return Answer{resp.StatusCode, resp.Header, out}
}

// LimitsHold is C112 and the second half of C099: limits that an admin sets
// reach the gateway, refuse with the time to come back, keep their word, and
// give a slot back when its caller leaves.
func LimitsHold(t *testing.T, h Harness) {
	a, b, admin := As(t, h, "team-a"), As(t, h, "team-b"), As(t, h, "admin")
	a.Submit("talk", 1, nil)
	a.Submit("slow", 1, slow())
	b.Submit("talk", 1, nil)
	a.Ready("talk")
	a.Ready("slow")
	b.Ready("talk")
	limited := admin.Must(200, "PUT", "/tenants/team-a/limits", `{"requestsPerMinute":12,"windowSeconds":10}`)
	if got := limited.JSON(t)["limits"].(map[string]any)["requestsPerMinute"]; got != 12.0 {
		t.Errorf("the tenant's limits are %v", got)
	}
	Eventually(t, "the limits to reach the gateway", func() bool {
		return a.Ask("nothing", nil).Status == 404 && a.Ask("talk", nil).Header.Get("X-Ratelimit-Limit-Requests") == "12"
	}, func() any { return a.Ask("talk", nil).Header })
	var refused Answer
	Eventually(t, "a refusal", func() bool { refused = a.Ask("talk", nil); return refused.Status == 429 }, func() any { return refused })
	after, err := strconv.Atoi(refused.Header.Get("Retry-After"))
	code, _, _ := refused.Error(t)
	if err != nil || after < 1 || after > 10 || code != "rate_limit_exceeded" || refused.Header.Get("X-Ratelimit-Remaining-Requests") != "0" {
		t.Errorf("refused with %s and %v", code, refused.Header)
	}
	Eventually(t, "the refusal's record", func() bool {
		trace := a.Do("GET", "/traces/"+refused.Header.Get("X-Request-Id"), nil)
		return trace.Status == 200 && trace.JSON(t)["outcome"] == "rejected_limit"
	}, func() any { return refused.Header })
	if got := b.Ask("talk", nil); got.Status != 200 || got.Header.Get("X-Ratelimit-Limit-Requests") != "" {
		t.Errorf("another tenant got %d %v", got.Status, got.Header)
	}
	time.Sleep(time.Duration(after) * time.Second) // as the caller was told to
	if got := a.Ask("talk", nil); got.Status != 200 {
		t.Errorf("after the time that was told: %d %s", got.Status, got.Body)
	}
	admin.Must(200, "PUT", "/tenants/team-a/limits", `{"perKey":{"concurrency":1}}`)
	Eventually(t, "the new limits to reach the gateway", func() bool {
		got := a.Ask("talk", nil)
		return got.Status == 200 && got.Header.Get("X-Ratelimit-Limit-Requests") == ""
	}, func() any { return "still the old ones" })
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	a.Chat(ctx, "slow", nil, func(n int) {
		if n == 2 {
			if got := a.Ask("talk", nil); got.Status != 429 {
				t.Errorf("a second request at once got %d", got.Status)
			}
			leave()
		}
	})
	Eventually(t, "the slot of a caller who left", func() bool { return a.Ask("talk", nil).Status == 200 }, func() any { return "still taken" })
	admin.Must(200, "PUT", "/tenants/team-a/limits", `{}`)
}

// AnswersAreCached is C119: the same repeatable request is answered once per
// tenant, as a stream or whole, and nobody sees another's answer.
func AnswersAreCached(t *testing.T, h Harness) {
	a, b := As(t, h, "team-a"), As(t, h, "team-b")
	cold := map[string]any{"temperature": 0}
	a.Submit("talk", 1, map[string]any{"model": map[string]any{"cache": map[string]any{"enabled": true, "ttlSeconds": 600}}})
	a.Ready("talk")
	a.Must(200, "PUT", "/grants/team-a/talk/team-b", nil)
	expect := func(c Caller, extra map[string]any, want string, header ...string) Answer {
		t.Helper()
		got := c.Ask("team-a/talk", extra, header...)
		if got.Status != 200 || got.Header.Get("X-Modeldock-Cache") != want {
			t.Errorf("%s %v: %d, the cache says %q, want %q", c.who, extra, got.Status, got.Header.Get("X-Modeldock-Cache"), want)
		}
		return got
	}
	first := expect(a, cold, "miss")
	if again := expect(a, cold, "hit"); !bytes.Equal(again.Body, first.Body) {
		t.Errorf("the hit is another answer: %s, first %s", again.Body, first.Body)
	}
	Eventually(t, "the grant to reach the gateway", func() bool { return b.Ask("team-a/talk", nil).Status == 200 }, func() any { return "refused" })
	if foreign := expect(b, cold, "miss"); bytes.Equal(foreign.Body, first.Body) {
		t.Error("team-b got team-a's answer")
	}
	stream := map[string]any{"temperature": 0, "stream": true}
	live := expect(a, stream, "miss")
	if replay := expect(a, stream, "hit"); !bytes.Equal(replay.Body, live.Body) || replay.Header.Get("Content-Type") != live.Header.Get("Content-Type") || !bytes.HasSuffix(replay.Body, []byte("data: [DONE]\n\n")) {
		t.Errorf("the stream is replayed as %q", replay.Body)
	}
	expect(a, nil, "bypass")
	expect(a, cold, "bypass", "Cache-Control", "no-store")
	// Turned off while it runs, and on again.
	gone := a.Get("talk").Generation
	a.Must(200, "PATCH", "/requests/talk", map[string]any{"generation": gone, "cache": map[string]any{"enabled": false}})
	Eventually(t, "the cache to be off", func() bool { return a.Ask("talk", cold).Header.Get("X-Modeldock-Cache") == "" }, func() any { return "still on" })
	a.Must(200, "PATCH", "/requests/talk", map[string]any{"generation": gone + 1, "cache": map[string]any{"enabled": true}})
	Eventually(t, "the cache to be on", func() bool { return a.Ask("talk", cold).Header.Get("X-Modeldock-Cache") == "hit" }, func() any { return "still off" })
}
