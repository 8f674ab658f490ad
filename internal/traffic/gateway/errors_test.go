package gateway_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway"
)

// TestEveryErrorIsOpenAIShaped is C075: plain text, HTML and {"detail":…} make SDKs
// print "status code (no body)".
func TestEveryErrorIsOpenAIShaped(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *gateway.Config) { c.MaxBody = 1 << 20 })
	b.publish(func(s *traffic.Snapshot) {
		for _, name := range []string{"cold", "full", "broken", "refuses", "text500", "html500", "detail422", "own429", "dies", "numeric"} {
			m := model("team-a", name, "v1")
			m.WaitTimeout = 20 * time.Millisecond
			switch name {
			case "full":
				m.MaxWaiting = 0
			case "broken":
				m.Failure = "weights not found"
			}
			s.Models = append(s.Models, m)
		}
	})
	answer := func(status int, contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	const own = `{"error":{"message":"slow down","type":"rate_limit_error","param":null,"code":"busy"},"x":1}`
	b.engine("team-a", "text500", "v1", answer(500, "text/plain", "upstream connect error at 10.1.2.3:8000"))
	b.engine("team-a", "html500", "v1", answer(500, "text/html", "<html><body>10.1.2.3 Internal</body></html>"))
	b.engine("team-a", "detail422", "v1", answer(422, "application/json", `{"detail":[{"loc":["body","top_p"],"msg":"too large"}]}`))
	b.engine("team-a", "own429", "v1", answer(429, "application/json", own))
	b.engine("team-a", "numeric", "v1", answer(400, "application/json", `{"error":{"message":"bad top_p","type":"BadRequestError","param":null,"code":400}}`))
	b.rawEngine("team-a", "dies", "v1", func(*net.TCPConn) {})
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := closed.Addr().String()
	_ = closed.Close()
	b.table.Upsert(endpoint("team-a", "refuses", "v1", refused))

	ask := func(name string) string { return strings.Replace(helloChat, "m1", name, 1) }
	const chat = "/v1/chat/completions"
	cases := []struct {
		name, method, path, key, body string
		status                        int
		code                          string
		outcome                       traffic.Outcome // empty: no record
	}{
		{"bad JSON", "POST", chat, keyA, `{"model":"m1",`, 400, "invalid_json", traffic.Forbidden},
		{"no body", "POST", chat, keyA, ``, 400, "invalid_json", traffic.Forbidden},
		{"trailing junk", "POST", chat, keyA, helloChat + "x", 400, "invalid_json", traffic.Forbidden},
		{"missing model", "POST", chat, keyA, `{"messages":[{"role":"user","content":"hi"}]}`, 400, "missing_model", traffic.Forbidden},
		{"empty messages", "POST", chat, keyA, `{"model":"m1","messages":[]}`, 400, "empty_messages", traffic.Forbidden},
		{"no messages", "POST", chat, keyA, `{"model":"m1"}`, 400, "empty_messages", traffic.Forbidden},
		{"unknown route", "POST", "/v1/images/generations", keyA, `{}`, 404, "unknown_url", ""},
		{"an engine's sleep", "POST", "/sleep?level=1", keyA, ``, 404, "unknown_url", ""},
		{"an engine's wake-up", "POST", "/wake_up", keyA, ``, 404, "unknown_url", ""},
		{"an engine's sleep below /v1", "POST", "/v1/../sleep", keyA, ``, 404, "unknown_url", ""},
		{"unknown route without key", "GET", "/v1/", "", ``, 404, "unknown_url", ""},
		{"wrong method", "GET", chat, keyA, ``, 405, "method_not_allowed", ""},
		{"wrong method on models", "POST", "/v1/models", keyA, `{}`, 405, "method_not_allowed", ""},
		{"no key", "POST", chat, "", helloChat, 401, "missing_api_key", ""},
		{"unknown key", "POST", chat, "mdk_nobody_x", helloChat, 401, "invalid_api_key", ""},
		{"wrong secret", "POST", chat, "mdk_aaaa_x", helloChat, 401, "invalid_api_key", ""},
		{"not a key", "POST", chat, "sk-123", helloChat, 401, "invalid_api_key", ""},
		{"expired key", "POST", chat, keyOld, helloChat, 401, "expired_api_key", ""},
		{"unknown model", "POST", chat, keyA, ask("nothing"), 404, "model_not_found", traffic.NotFound},
		{"foreign model", "POST", chat, keyA, ask("team-b/m2"), 404, "model_not_found", traffic.NotFound},
		{"waiting room full", "POST", chat, keyA, ask("full"), 429, "waiting_room_full", traffic.RejectedFull},
		{"cold timeout", "POST", chat, keyA, ask("cold"), 503, "model_loading", traffic.ExpiredWaiting},
		{"model failed", "POST", chat, keyA, ask("broken"), 503, "model_failed", traffic.ExpiredWaiting},
		{"refused", "POST", chat, keyA, ask("refuses"), 503, "upstream_unreachable", traffic.UpstreamError},
		{"dies before the answer", "POST", chat, keyA, ask("dies"), 502, "upstream_cut", traffic.UpstreamCut},
		{"500 text", "POST", chat, keyA, ask("text500"), 502, "upstream_error", traffic.UpstreamError},
		{"500 HTML", "POST", chat, keyA, ask("html500"), 502, "upstream_error", traffic.UpstreamError},
		{"422 detail", "POST", chat, keyA, ask("detail422"), 422, "upstream_error", traffic.UpstreamError},
		{"numeric code", "POST", chat, keyA, ask("numeric"), 400, "upstream_error", traffic.UpstreamError},
		{"own shape", "POST", chat, keyA, ask("own429"), 429, "busy", traffic.UpstreamError},
		{"body too large", "POST", chat, keyA, strings.Repeat(" ", 1<<20) + helloChat, 413, "body_too_large", traffic.RejectedLimit},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := b.call(c.method, c.path, c.key, c.body)
			e := errorOf(t, got)
			if got.status != c.status || e.Code != c.code {
				t.Errorf("%d %v, want %d %s: %s", got.status, e.Code, c.status, c.code, got.body)
			}
			for _, secret := range []string{"10.1.2.3", "127.0.0.1", "goroutine", "secret-of"} {
				if strings.Contains(got.body, secret) {
					t.Errorf("the answer tells %q: %s", secret, got.body)
				}
			}
			if c.outcome != "" {
				if r := b.record(got.header.Get("X-Request-Id")); r.Outcome != c.outcome || r.Status != c.status {
					t.Errorf("recorded %s with %d, want %s with %d", r.Outcome, r.Status, c.outcome, c.status)
				}
			}
			checkErrorHeaders(t, got)
		})
	}
	t.Cleanup(func() {
		for _, r := range b.records.all() {
			if r.KeyID == "" {
				t.Errorf("a stranger left a record: %+v", r)
			}
		}
	})
}

func checkErrorHeaders(t *testing.T, got result) {
	t.Helper()
	switch code := got.status; {
	case code == 405 && got.header.Get("Allow") == "":
		t.Error("405 without Allow")
	case code == 401 && got.header.Get("Www-Authenticate") == "":
		t.Error("401 without WWW-Authenticate")
	case code == 503 || code == 429 && strings.Contains(got.body, "waiting"):
		if s, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || s < 1 || s > 120 {
			t.Errorf("Retry-After %q", got.header.Get("Retry-After"))
		}
	case code == 502 && strings.Contains(got.body, "upstream_cut") && got.header.Get("X-Should-Retry") != "false":
		t.Error("a retry would do the work twice, and the answer does not say so")
	}
}

func TestOwnErrorShapePassesUnchanged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const own = `{"error": {"message":"no such adapter at http://10.0.0.1/x","type":"invalid_request_error","param":"model","code":null}, "more": [1]}`
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, own)
	})
	got := b.chat(keyA, helloChat)
	if got.status != http.StatusConflict || got.body != own || got.header.Get("Retry-After") != "3" {
		t.Errorf("%d %q %v", got.status, got.body, got.header)
	}
}

func TestPanicIsAnError(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *gateway.Config) {
		c.Principal = func(*http.Request) (traffic.Key, error) { panic("a bug with mdk_aaaa_secret") }
	})
	got := b.chat("", helloChat)
	if e := errorOf(t, got); got.status != 500 || e.Code != "internal_error" || strings.Contains(got.body, "bug") {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestNoSnapshotYet(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.snapshot.Store(nil)
	got := b.chat(keyA, helloChat)
	if e := errorOf(t, got); got.status != 503 || e.Code != "no_snapshot" || got.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// TestShortAnswerCutIsAnError: an engine that dies in a short answer is seen
// before the status is sent.
func TestShortAnswerCutIsAnError(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.rawEngine("team-a", "m1", "v1", func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{\"id\":")
	})
	got := b.chat(keyA, helloChat)
	if e := errorOf(t, got); got.status != 502 || e.Code != "upstream_cut" {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// TestLongAnswerCutAborts: after the status is sent, only the transfer can
// tell.
func TestLongAnswerCutAborts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.rawEngine("team-a", "m1", "v1", func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"+
			"Transfer-Encoding: chunked\r\n\r\n20000\r\n{"+strings.Repeat(" ", 0x1ffff)+"\r\n")
	})
	got := b.chat(keyA, helloChat)
	if got.err == nil {
		t.Errorf("a cut answer of %d bytes ended cleanly", len(got.body))
	}
	if r := b.record(got.header.Get("X-Request-Id")); r.Outcome != traffic.UpstreamCut {
		t.Errorf("outcome %s", r.Outcome)
	}
}

func TestExpectContinueAndChunkedBodies(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var sent string
	var length int64
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		sent, length = string(text), r.ContentLength
		_, _ = io.WriteString(w, wholeChat)
	})
	for _, expect := range []bool{false, true} {
		request, err := http.NewRequestWithContext(context.Background(), http.MethodPost,
			b.url+"/v1/chat/completions", io.MultiReader(strings.NewReader(helloChat[:9]), strings.NewReader(helloChat[9:])))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+keyA)
		if expect {
			request.Header.Set("Expect", "100-continue")
		}
		client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		client.CloseIdleConnections()
		want := strings.Replace(helloChat, `"m1"`, `"engine-m1"`, 1)
		if response.StatusCode != http.StatusOK || sent != want || length != int64(len(want)) {
			t.Errorf("expect=%t: %d, the engine got %q with length %d", expect, response.StatusCode, sent, length)
		}
	}
}

// While nobody can say what came since the snapshot, a model that is not in it
// is not called one that does not exist; a key that is not in it stays refused.
func TestUnknownWhileTheControllerIsAway(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *gateway.Config) {
		c.Refresh = func(context.Context, time.Time) error { return errors.New("connection to 10.1.2.3 refused") }
	})
	b.engine("team-a", "m1", "v1", whole(`{"id":"1"}`))
	for _, c := range []struct {
		key, body string
		status    int
		code      string
	}{
		{keyA, strings.Replace(helloChat, "m1", "nothing", 1), 503, "model_unknown"},
		{keyA, strings.Replace(helloChat, "m1", "team-b/m2", 1), 503, "model_unknown"}, // looks the same
		{"mdk_nobody_x", helloChat, 401, "invalid_api_key"},
	} {
		got := b.chat(c.key, c.body)
		if e := errorOf(t, got); got.status != c.status || e.Code != c.code || strings.Contains(got.body, "10.1.2.3") {
			t.Errorf("%d %v, want %d %s: %s", got.status, e.Code, c.status, c.code, got.body)
		}
		checkErrorHeaders(t, got)
	}
	if got := b.chat(keyA, helloChat); got.status != 200 {
		t.Errorf("a known model is refused, too: %d %s", got.status, got.body)
	}
}
