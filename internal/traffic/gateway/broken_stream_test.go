package gateway_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"modeldock.io/internal/traffic"
)

const (
	closingHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
	chunkedHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)

// TestStreamWithoutDoneIsNoCleanEnd is C087: a dead engine must not look like a short
// answer.
func TestStreamWithoutDoneIsNoCleanEnd(t *testing.T) {
	t.Parallel()
	three := chunkEvent("a") + chunkEvent("b") + chunkEvent("c")
	cases := map[string]func(*net.TCPConn){
		"clean close": func(c *net.TCPConn) { _, _ = io.WriteString(c, closingHead+three) },
		"reset": func(c *net.TCPConn) {
			_, _ = io.WriteString(c, closingHead+three)
			_ = c.SetLinger(0)
		},
		"chunked properly ended": func(c *net.TCPConn) {
			_, _ = io.WriteString(c, chunkedHead+chunked(three)+"0\r\n\r\n")
		},
		"chunked cut": func(c *net.TCPConn) { _, _ = io.WriteString(c, chunkedHead+chunked(three)) },
		"half an event": func(c *net.TCPConn) {
			_, _ = io.WriteString(c, closingHead+three+chunkEvent("half")[:60])
		},
		"one of two choices finished": func(c *net.TCPConn) {
			_, _ = io.WriteString(c, closingHead+three+strings.Replace(chunkEvent("x"), `"index":0`, `"index":1`, 1)+stopEvent)
		},
	}
	for name, script := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.rawEngine("team-a", "m1", "v1", script)
			got := b.chat(keyA, helloStream)
			if strings.Contains(got.body, "[DONE]") || strings.Contains(got.body, "half") {
				t.Errorf("body %q", got.body)
			}
			// A reset may overtake what was sent before it; the error may not
			// be lost.
			if !strings.HasSuffix(got.body, "\n\n") || strings.Count(got.body, `data: {"error":{"message":"`) != 1 ||
				!strings.Contains(got.body, `"param":null,"code":"upstream_cut"}}`) {
				t.Errorf("no error event at the end of %q", got.body)
			}
			if name != "reset" && !strings.HasPrefix(got.body, three) {
				t.Errorf("what came before is missing: %q", got.body)
			}
			if got.err == nil {
				t.Error("the transfer ended cleanly")
			}
			r := b.record(got.header.Get("X-Request-Id"))
			if r.Outcome != traffic.UpstreamCut || !r.DoneAt.IsZero() {
				t.Errorf("record %+v", r)
			}
		})
	}
}

func chunked(s string) string {
	const hex = "0123456789abcdef"
	n := len(s)
	return string([]byte{hex[n>>12&15], hex[n>>8&15], hex[n>>4&15], hex[n&15]}) + "\r\n" + s + "\r\n"
}

// TestFinishedStreamIsCompleted is C087 (d): all was said, only [DONE] is missing.
func TestFinishedStreamIsCompleted(t *testing.T) {
	t.Parallel()
	for name, tail := range map[string]string{
		"no DONE": stopEvent, "with usage": stopEvent + usageEvent, "DONE without empty line": stopEvent + "data: [DONE]",
		"DONE with one line end": stopEvent + "data: [DONE]\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.engine("team-a", "m1", "v1", events(chunkEvent("a"), tail))
			got := b.chat(keyA, helloStream)
			if got.err != nil || strings.TrimRight(got.body, "\n") != chunkEvent("a")+stopEvent+"data: [DONE]" || !strings.HasSuffix(got.body, "\n\n") {
				t.Errorf("%v %q", got.err, got.body)
			}
			if r := b.record(got.header.Get("X-Request-Id")); r.Outcome != traffic.Completed || r.DoneAt.IsZero() {
				t.Errorf("record %+v", r)
			}
		})
	}
}

// TestErrorInsideStream is C088: it reaches the caller as an event of its own, in one
// shape, and ends the stream.
func TestErrorInsideStream(t *testing.T) {
	t.Parallel()
	const oom = `{"error":{"message":"CUDA out of memory","type":"server_error","code":"oom"}}`
	wrapped := func(message, code string) string {
		return `{"error":{"message":"` + message + `","type":"server_error","param":null,"code":"` + code + `"}}`
	}
	cases := map[string]struct{ sent, want string }{
		"OpenAI shape":       {"data: " + oom + "\n\n", oom},
		"two data lines":     {"data: {\"error\":\ndata: {\"message\":\"boom\"}}\n\n", `{"error": {"message":"boom"}}`},
		"numeric code":       {`data: {"error":{"message":"boom","type":"x","code":500}}` + "\n\n", `{"error":{"message":"boom","type":"x","param":null,"code":"500"}}`},
		"message and code":   {`data: {"message":"boom","code":500}` + "\n\n", wrapped("boom", "500")},
		"detail":             {`data: {"detail":"boom"}` + "\n\n", wrapped("boom", "upstream_error")},
		"error is a string":  {`data: {"error":"boom"}` + "\n\n", wrapped("boom", "upstream_error")},
		"event: error":       {"event: error\ndata: boom\n\n", wrapped("boom", "upstream_error")},
		"a name taken back":  {"event: ping\nevent: error\ndata: boom\n\n", wrapped("boom", "upstream_error")},
		"event: message":     {"event: message\ndata: boom\n\n", wrapped("boom", "upstream_error")},
		"plain data":         {"data: Internal Server Error\n\n", wrapped("Internal Server Error", "upstream_error")},
		"plain data, torn":   {"data: Internal Server Error", wrapped("Internal Server Error", "upstream_error")},
		"plain text":         {"Internal Server Error", wrapped("Internal Server Error", "upstream_error")},
		"plain text, a line": {"Internal Server Error\n\n", wrapped("Internal Server Error", "upstream_error")},
		"bare object":        {`{"message":"boom","code":500}`, wrapped("boom", "500")},
		"with an address":    {"data: cannot reach 10.9.8.7:8000 now\n\n", wrapped("cannot reach […] now", "upstream_error")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			e := b.engine("team-a", "m1", "v1", events(chunkEvent("a")+chunkEvent("b"), c.sent))
			got := b.chat(keyA, helloStream)
			if want := chunkEvent("a") + chunkEvent("b") + "data: " + c.want + "\n\n"; got.body != want {
				t.Errorf("got\n%q, want\n%q", got.body, want)
			}
			if r := b.record(got.header.Get("X-Request-Id")); r.Outcome != traffic.UpstreamError || r.FirstContentAt.IsZero() {
				t.Errorf("record %+v", r)
			}
			eventually(t, "the place to be given back", func() bool { return b.table.InFlight(e.UID) == 0 })
		})
	}
}

// TestErrorEventEndsStreamAtOnce: what the engine says after it is not passed,
// and an engine that does not end is left.
func TestErrorEventEndsStreamAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	left := make(chan struct{})
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) {
		events(chunkEvent("a"), `data: {"error":{"message":"boom"}}`+"\n\n"+chunkEvent("late"))(w, r)
		<-r.Context().Done()
		close(left)
	})
	got := b.chat(keyA, helloStream)
	if strings.Contains(got.body, "late") || strings.Contains(got.body, "[DONE]") {
		t.Errorf("%q", got.body)
	}
	<-left
}

// TestTornLineEndBeforeTheEnd: CR ends the last event, its LF comes alone, and
// then nothing: the LF is passed before what is added.
func TestTornLineEndBeforeTheEnd(t *testing.T) {
	t.Parallel()
	finished := strings.ReplaceAll(chunkEvent("a")+stopEvent, "\n", "\r\n")
	unfinished := strings.ReplaceAll(chunkEvent("a"), "\n", "\r\n")
	for _, sent := range []string{finished, unfinished} {
		b := setup(t)
		arrived := make(chan struct{})
		b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) {
			events(sent[:len(sent)-1])(w, r)
			<-arrived
			events("\n")(w, r)
		})
		answer := b.later(keyA, helloStream)
		eventually(t, "the first part", func() bool { return b.metrics("modeldock_gateway_first_chunk_seconds")["team-a/m1,v1"] == 1 })
		close(arrived)
		added := addedDone
		if sent == unfinished {
			added = `data: {"error":{"message":"`
		}
		if got := <-answer; !strings.HasPrefix(got.body, sent+added) {
			t.Errorf("%q, want %q", got.body, sent+added)
		}
	}
}

// TestMissingChoiceIsACut: a proper end without [DONE] is one only if every
// choice that was asked for has come to its end.
func TestMissingChoiceIsACut(t *testing.T) {
	t.Parallel()
	second := func(event string) string { return strings.Replace(event, `"index":0`, `"index":1`, 1) }
	one := chunkEvent("a") + stopEvent
	for _, c := range []struct {
		n, stream string
		whole     bool
	}{
		{"1", one, true},
		{"null", one, true},
		{"2", one, false},
		{"2", one + second(chunkEvent("b")), false},
		{"2", one + second(chunkEvent("b")+stopEvent), false},
		{"2", one + second(chunkEvent("b")) + second(stopEvent), true},
	} {
		b := setup(t)
		b.rawEngine("team-a", "m1", "v1", func(conn *net.TCPConn) {
			_, _ = io.WriteString(conn, chunkedHead+chunked(c.stream)+"0\r\n\r\n")
		})
		got := b.chat(keyA, strings.Replace(helloStream, `"stream"`, `"n":`+c.n+`,"stream"`, 1))
		r := b.record(got.header.Get("X-Request-Id"))
		if strings.Contains(got.body, "[DONE]") != c.whole || (got.err == nil) != c.whole || (r.Outcome == traffic.Completed) != c.whole {
			t.Errorf("n=%s, %q: %q, %v, %s", c.n, c.stream, got.body, got.err, r.Outcome)
		}
	}
}
