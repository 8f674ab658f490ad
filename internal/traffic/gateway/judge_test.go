package gateway_test

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"modeldock.io/internal/traffic"
)

// TestSuccessThatIsNone: a 200 whose body is not what was asked for is an
// error that the caller can see, never an empty success.
func TestSuccessThatIsNone(t *testing.T) {
	t.Parallel()
	const jsonType, text = "application/json", "text/plain; charset=utf-8"
	cases := map[string]struct {
		ask, contentType, body, says string
	}{
		"stream: no type":             {helloStream, "", chunkEvent("a") + doneEvent, "without a content type"},
		"stream: a completion":        {helloStream, jsonType, wholeChat, "JSON where events were asked for"},
		"stream: a completion, +json": {helloStream, "Application/Problem+JSON; charset=utf-8", wholeChat, "JSON where events were asked for"},
		"stream: a long completion":   {helloStream, jsonType, wholeChat + strings.Repeat(" ", 100_000), "JSON where events were asked for"},
		"stream: empty JSON":          {helloStream, jsonType, "", "an empty body"},
		"stream: blank JSON":          {helloStream, jsonType, " \n", "an empty body"},
		"stream: text":                {helloStream, text, "Service starting", "text/plain"},
		"stream: events as text":      {helloStream, text, chunkEvent("a") + doneEvent, "text/plain"},
		"stream: page":                {helloStream, "text/html", "<html>10.1.2.3</html>", "text/html"},
		"stream: JSON that is broken": {helloStream, jsonType, wholeChat[:80], "not a JSON object"},
		"stream: JSON without choice": {helloStream, jsonType, `{"object":"chat.completion","choices":[]}`, "no completion"},
		"stream: JSON list":           {helloStream, jsonType, `[]`, "not a JSON object"},
		"stream: error behind a 200":  {helloStream, jsonType, `{"error":{"message":"CUDA out of memory"}}`, "CUDA out of memory"},
		"stream: long text":           {helloStream, jsonType, strings.Repeat("x", 100_000), "long body"},
		"whole: empty":                {helloChat, jsonType, "", "an empty body"},
		"whole: empty, no type":       {helloChat, "", "", "an empty body"},
		"whole: text":                 {helloChat, text, "worker lost", "worker lost"},
		"whole: page":                 {helloChat, "text/html", "<html>10.1.2.3</html>", "not a JSON object"},
		"whole: broken JSON":          {helloChat, jsonType, wholeChat[:80], "not a JSON object"},
		"whole: long text":            {helloChat, jsonType, strings.Repeat("x", 100_000), "long body"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			e := b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = nil
				if c.contentType != "" {
					w.Header().Set("Content-Type", c.contentType)
				}
				_, _ = io.WriteString(w, c.body)
			})
			got := b.chat(keyA, c.ask)
			if e := errorOf(t, got); got.status != http.StatusBadGateway || e.Code != "invalid_upstream_answer" ||
				!strings.Contains(e.Message, c.says) || strings.Contains(got.body, "10.1.2.3") {
				t.Errorf("%d %s", got.status, got.body)
			}
			if got.header.Get("X-Should-Retry") != "false" {
				t.Error("a retry would do the work twice, and the answer does not say so")
			}
			r := b.record(got.header.Get("X-Request-Id"))
			if r.Outcome != traffic.UpstreamError || r.Status != http.StatusBadGateway || !r.FirstContentAt.IsZero() || !r.DoneAt.IsZero() {
				t.Errorf("record %+v", r)
			}
			eventually(t, "the place to be given back", func() bool { return b.table.InFlight(e.UID) == 0 })
		})
	}
}

// TestEndlessTextIsNotAwaited: what cannot be an answer is left at once.
func TestEndlessTextIsNotAwaited(t *testing.T) {
	t.Parallel()
	b := setup(t)
	left := make(chan struct{})
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, chunkEvent("a"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(left)
	})
	if got := b.chat(keyA, helloStream); got.status != http.StatusBadGateway {
		t.Errorf("%d %s", got.status, got.body)
	}
	<-left
}

// TestTranscriptForAStream: an engine that cannot stream transcripts answers
// with a whole one, as if it had not been asked to.
func TestTranscriptForAStream(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"text":"hello"}`)
	})
	const form = "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm1\r\n" +
		"--x\r\nContent-Disposition: form-data; name=\"stream\"\r\n\r\ntrue\r\n--x--\r\n"
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/v1/audio/transcriptions", strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+keyA)
	request.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	response, err := b.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if text, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK || string(text) != `{"text":"hello"}` {
		t.Errorf("%d %q, %v", response.StatusCode, text, err)
	}
}

// TestAnswerWithoutAContentType: what is JSON goes out as JSON.
func TestAnswerWithoutAContentType(t *testing.T) {
	t.Parallel()
	long := `{"a":"` + strings.Repeat("x", 100_000) + `"}`
	for _, body := range []string{wholeChat, long} {
		b := setup(t)
		b.rawEngine("team-a", "m1", "v1", func(c *net.TCPConn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body)
		})
		got := b.chat(keyA, helloChat)
		if got.status != http.StatusOK || got.body != body || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("%d as %q, %d bytes", got.status, got.header.Get("Content-Type"), len(got.body))
		}
	}
}

// TestEmptyStreamIsAnError: the right content type and nothing else.
func TestEmptyStreamIsAnError(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.rawEngine("team-a", "m1", "v1", func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 0\r\n\r\n")
	})
	got := b.chat(keyA, helloStream)
	if got.err == nil || !strings.Contains(got.body, `"code":"upstream_cut"`) || strings.Contains(got.body, "[DONE]") {
		t.Errorf("%d %v %q", got.status, got.err, got.body)
	}
}
