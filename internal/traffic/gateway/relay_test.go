package gateway_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/traffic"
)

// TestStreamBytesSurvive: whatever the framing and wherever TCP tears it, the
// caller gets the bytes that the engine sent.
func TestStreamBytesSurvive(t *testing.T) {
	t.Parallel()
	big := chunkEvent(strings.Repeat("ab", 512<<10)) // a line of 1 MiB
	streams := map[string]string{
		"LF":       ": keep-alive\n\n" + roleEvent + chunkEvent("a") + stopEvent + doneEvent,
		"CRLF":     strings.ReplaceAll(roleEvent+chunkEvent("a")+stopEvent+doneEvent, "\n", "\r\n"),
		"CR":       strings.ReplaceAll(roleEvent+chunkEvent("a")+stopEvent+doneEvent, "\n", "\r"),
		"comments": ":\n:\n: a\n" + chunkEvent("a") + ": b\n\n\n\n" + doneEvent + ": bye\n\n",
		"fields":   "id: 7\nretry: 10\nevent: message\n" + chunkEvent("a") + "unknown: x\n\n" + doneEvent,
		"ping":     roleEvent + "event: ping\ndata: hello\n\n" + chunkEvent("a") + "event: note\ndata: {\"message\":\"queued\"}\n\n" + stopEvent + doneEvent,
		"named":    "event: ping\ndata: {\"half\":\n\nevent: ping\nnot a field\n\nevent: chunk\n" + chunkEvent("a") + "event: end\n" + doneEvent,
		"lines":    "data: {\"choices\":[{\"index\":0,\ndata: \"delta\":{\"content\":\"a\"}}]}\n\n" + doneEvent,
		"BOM":      "\xef\xbb\xbf" + chunkEvent("a") + doneEvent,
		"UTF-8":    chunkEvent("héllo 🌍 \\u0000") + doneEvent,
		"no space": strings.ReplaceAll(chunkEvent("a"), "data: ", "data:") + "data:[DONE]\n\n",
	}
	for name, stream := range streams {
		for _, step := range []int{1, 2, 3, 7, 1 << 20} {
			t.Run(fmt.Sprintf("%s by %d", name, step), func(t *testing.T) {
				t.Parallel()
				checkBytes(t, stream, step)
			})
		}
	}
	t.Run("1 MiB line", func(t *testing.T) {
		t.Parallel()
		checkBytes(t, big+big+chunkEvent("z")+stopEvent+doneEvent, 60_001)
	})
	t.Run("200 KB line", func(t *testing.T) {
		t.Parallel()
		checkBytes(t, chunkEvent(strings.Repeat("x", 200_000))+stopEvent+doneEvent, 9_999)
	})
}

// TestLastLineFeedComesAlone: the LF after the CR that ends [DONE] is passed
// on also where it comes long after it.
func TestLastLineFeedComesAlone(t *testing.T) {
	t.Parallel()
	stream := strings.ReplaceAll(roleEvent+chunkEvent("a")+stopEvent+doneEvent, "\n", "\r\n")
	checkSent(t, stream, func(c *net.TCPConn) {
		_, _ = io.WriteString(c, stream[:len(stream)-1])
		time.Sleep(100 * time.Millisecond) // so that it does not travel with the rest
		_, _ = io.WriteString(c, stream[len(stream)-1:])
	})
}

func checkBytes(t *testing.T, stream string, step int) {
	t.Helper()
	checkSent(t, stream, func(c *net.TCPConn) {
		for rest := stream; rest != ""; {
			n := min(step, len(rest))
			_, _ = io.WriteString(c, rest[:n])
			rest = rest[n:]
		}
	})
}

func checkSent(t *testing.T, stream string, send func(c *net.TCPConn)) {
	t.Helper()
	b := setup(t)
	b.rawEngine("team-a", "m1", "v1", func(c *net.TCPConn) {
		_ = c.SetNoDelay(true)
		_, _ = io.WriteString(c, closingHead)
		send(c)
	})
	got := b.chat(keyA, helloStream)
	if got.body != stream || got.err != nil {
		t.Errorf("%d bytes, %v, want %d bytes\n%.300q\n%.300q", len(got.body), got.err, len(stream), got.body, stream)
	}
	if r := b.record(got.header.Get("X-Request-Id")); r.Outcome != traffic.Completed || r.FirstContentAt.IsZero() || r.DoneAt.IsZero() {
		t.Errorf("record %+v", r)
	}
}

// TestUsageIsRemovedOnlyIfNotAsked, and nothing else ever is.
func TestUsageIsRemovedOnlyIfNotAsked(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		options string
		sent    string
		removed bool
	}{
		"not set":   {``, `,"stream_options":{"include_usage":true}`, true},
		"null":      {`,"stream_options": null`, `,"stream_options": {"include_usage":true}`, true},
		"empty":     {`,"stream_options":{ }`, `,"stream_options":{"include_usage":true }`, true},
		"others":    {`,"stream_options":{"x":1}`, `,"stream_options":{"include_usage":true,"x":1}`, true},
		"set false": {`,"stream_options":{"include_usage":false}`, `,"stream_options":{"include_usage":true}`, true},
		"set true":  {`,"stream_options":{"include_usage":true}`, `,"stream_options":{"include_usage":true}`, false},
	}
	for name, c := range cases {
		for _, first := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, model first %t", name, first), func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				var body string
				b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) {
					text, _ := io.ReadAll(r.Body)
					body = string(text)
					events(chunkEvent("a")+usageEvent+chunkEvent("b")+usageEvent, doneEvent)(w, r)
				})
				rest := `"stream":true,"messages":[{"role":"user","content":"hi"}]`
				ask, want := `{"model":"m1",`+rest+c.options+`}`, `{"model":"engine-m1",`+rest+c.sent+`}`
				if c.options == "" {
					want = `{"model":"engine-m1"` + c.sent + `,` + rest + `}`
				}
				if !first {
					ask, want = `{`+rest+c.options+`,"model":"m1"}`, `{`+rest+c.sent+`,"model":"engine-m1"}`
					if c.options == "" {
						want = `{` + rest + `,"model":"engine-m1"` + c.sent + `}`
					}
				}
				got := b.chat(keyA, ask)
				if body != want {
					t.Errorf("the engine got\n%s, want\n%s", body, want)
				}
				kept := chunkEvent("a") + usageEvent + chunkEvent("b") + usageEvent + doneEvent
				if c.removed {
					kept = strings.Replace(kept, usageEvent, "", 1)
				}
				if got.body != kept {
					t.Errorf("got\n%q, want\n%q", got.body, kept)
				}
				if r := b.record(got.header.Get("X-Request-Id")); r.PromptTokens != 7 || r.CompletionTokens != 3 {
					t.Errorf("tokens %d and %d", r.PromptTokens, r.CompletionTokens)
				}
			})
		}
	}
}

// TestGzipFromTheEngine is C092: it compresses when allowed or always; every caller
// reads the right text.
func TestGzipFromTheEngine(t *testing.T) {
	t.Parallel()
	for _, always := range []bool{false, true} {
		for _, accept := range []string{"gzip, br", "identity", ""} {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("always=%t accept=%q stream=%t", always, accept, stream), func(t *testing.T) {
					t.Parallel()
					checkGzip(t, always, accept, stream)
				})
			}
		}
	}
}

func checkGzip(t *testing.T, always bool, accept string, stream bool) {
	t.Helper()
	b := setup(t)
	proceed := make(chan struct{})
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) {
		var out io.Writer = w
		flush := w.(http.Flusher).Flush
		w.Header().Set("Content-Type", "application/json")
		if stream {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		if always || strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			defer func() { _ = z.Close() }()
			out, flush = z, func() { _ = z.Flush(); w.(http.Flusher).Flush() }
		}
		if !stream {
			_, _ = io.WriteString(out, wholeChat)
			return
		}
		_, _ = io.WriteString(out, chunkEvent("a"))
		flush()
		<-proceed // the first event must arrive before there is a second one
		_, _ = io.WriteString(out, stopEvent+usageEvent+doneEvent)
	})
	ask, want := helloChat, wholeChat
	if stream {
		ask, want = helloStream, chunkEvent("a")+stopEvent+doneEvent
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/v1/chat/completions", strings.NewReader(ask))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+keyA)
	if accept != "" {
		request.Header.Set("Accept-Encoding", accept)
	}
	response, err := b.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if stream {
		first := make([]byte, len(chunkEvent("a")))
		if _, err := io.ReadFull(response.Body, first); err != nil || string(first) != chunkEvent("a") {
			t.Fatalf("first event %q, %v", first, err)
		}
		close(proceed)
		want = want[len(first):]
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("Content-Encoding lies: %v", err)
		}
		if text, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	if string(text) != want {
		t.Errorf("got %q, want %q", text, want)
	}
	if l := response.Header.Get("Content-Length"); l != "" && l != strconv.Itoa(len(want)) {
		t.Errorf("Content-Length %s of %d bytes", l, len(want))
	}
	if r := b.record(response.Header.Get("X-Request-Id")); r.PromptTokens != 7 || r.Outcome != traffic.Completed {
		t.Errorf("record %+v", r)
	}
}

// TestUnaskedCompression: what cannot be undone is an error unless the caller
// takes it.
func TestUnaskedCompression(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "br")
		_, _ = io.WriteString(w, "brotli")
	})
	if got := b.chat(keyA, helloChat); got.status != http.StatusBadGateway {
		t.Errorf("%d %q", got.status, got.body)
	}
	if got := b.chat(keyA, helloChat, "Accept-Encoding", "br"); got.status != 200 || got.body != "brotli" || got.header.Get("Content-Encoding") != "br" {
		t.Errorf("%d %q", got.status, got.body)
	}
}

// TestLongAnswer: an answer that is larger than the first buffer, with and
// without a known length; its usage stands at the end.
func TestLongAnswer(t *testing.T) {
	t.Parallel()
	long := `{"object":"list","data":["` + strings.Repeat("0123456789", 30_000) + `"],"usage":{"prompt_tokens":9,"total_tokens":9}}`
	for _, known := range []bool{true, false} {
		b := setup(t)
		b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, _ *http.Request) {
			if known {
				w.Header().Set("Content-Length", strconv.Itoa(len(long)))
			}
			_, _ = io.WriteString(w, long[:100_000])
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, long[100_000:])
		})
		got := b.call(http.MethodPost, "/v1/embeddings", keyA, `{"model":"m1","input":"x"}`)
		if got.body != long || got.err != nil {
			t.Errorf("known=%t: %d bytes, %v", known, len(got.body), got.err)
		}
		if r := b.record(got.header.Get("X-Request-Id")); r.PromptTokens != 9 || r.Outcome != traffic.Completed {
			t.Errorf("record %+v", r)
		}
	}
}

// TestStreamOutlivesServerLimits is C096, scaled: the server's write limit is shorter
// than the stream, and the first token comes after it.
func TestStreamOutlivesServerLimits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		for range 6 {
			time.Sleep(60 * time.Millisecond) // the engine's pace, not a wait for a condition
			_, _ = io.WriteString(w, chunkEvent("a"))
			w.(http.Flusher).Flush()
		}
		_, _ = io.WriteString(w, stopEvent+doneEvent)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	strict := &http.Server{Handler: b.gateway, WriteTimeout: 100 * time.Millisecond, ReadHeaderTimeout: time.Second}
	go func() { _ = strict.Serve(listener) }()
	t.Cleanup(func() { _ = strict.Close() })
	b.url = "http://" + listener.Addr().String()
	got := b.chat(keyA, helloStream)
	if got.err != nil || got.body != strings.Repeat(chunkEvent("a"), 6)+stopEvent+doneEvent {
		t.Errorf("%v %q", got.err, got.body)
	}
}

// TestServerLimits: what a caller sends before the body is bounded.
func TestServerLimits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.call(http.MethodGet, "/v1/models", keyA, "", "X-Big", strings.Repeat("x", 200<<10))
	if r.status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 200 KiB got %d", r.status)
	}
}

// TestUsageLeftOutOfTornLines: where lines end in CRLF and the segments end
// between CR and LF, no line end is lost with the usage, and none is added.
func TestUsageLeftOutOfTornLines(t *testing.T) {
	t.Parallel()
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
	before, usage, after := crlf(chunkEvent("a")+stopEvent), crlf(usageEvent), crlf(doneEvent)
	sent := before + usage + after
	for _, at := range []int{len(before) - 1, len(before), len(before + usage), len(before+usage) - 1} {
		for _, second := range []int{len(before+usage) - 1, len(before + usage)} {
			second = max(at, second)
			b := setup(t)
			go1, go2 := make(chan struct{}), make(chan struct{})
			b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) {
				events(sent[:at])(w, r)
				<-go1
				events(sent[at:second])(w, r)
				<-go2
				events(sent[second:])(w, r)
			})
			answer := b.later(keyA, helloStream)
			eventually(t, "the first part", func() bool { return b.metrics("modeldock_gateway_first_chunk_seconds")["team-a/m1,v1"] == 1 })
			close(go1)
			time.Sleep(5 * time.Millisecond) // for a segment of its own; the bytes are the same without
			close(go2)
			if got := <-answer; got.body != before+after {
				t.Errorf("torn at %d and %d: %q, want %q", at-len(before), second-len(before+usage), got.body, before+after)
			}
		}
	}
}

// TestHalfAnswerWithoutAFrame: an engine that ends its answer by closing the
// connection cannot be told from one that was cut, except by the JSON.
func TestHalfAnswerWithoutAFrame(t *testing.T) {
	t.Parallel()
	whole := `{"choices":[{"index":0,"message":{"role":"assistant","content":"` + strings.Repeat(`a\"{`, 50_000) + `"},"finish_reason":"stop"}]}`
	for name, c := range map[string]struct {
		body    string
		outcome traffic.Outcome
	}{
		"whole":                {whole, traffic.Completed},
		"whole with line end":  {whole + "\r\n", traffic.Completed},
		"cut in the string":    {whole[:len(whole)/2], traffic.UpstreamCut},
		"cut before the brace": {whole[:len(whole)-1], traffic.UpstreamCut},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.rawEngine("team-a", "m1", "v1", func(conn *net.TCPConn) {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"+c.body)
			})
			got := b.chat(keyA, helloChat)
			if got.status != http.StatusOK || got.body != c.body || (got.err == nil) != (c.outcome == traffic.Completed) {
				t.Errorf("%d with %d bytes, %v", got.status, len(got.body), got.err)
			}
			if r := b.record(got.header.Get("X-Request-Id")); r.Outcome != c.outcome {
				t.Errorf("outcome %s", r.Outcome)
			}
		})
	}
}
