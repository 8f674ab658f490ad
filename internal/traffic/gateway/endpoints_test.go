package gateway_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"modeldock.io/internal/traffic"
)

func typedEvent(name, members string) string {
	return "event: " + name + "\ndata: {\"type\":\"" + name + "\"," + members + "}\n\n"
}

var (
	responseCreated = typedEvent("response.created", `"response":{"id":"r","status":"in_progress","error":null,"usage":null}`)
	responseDelta   = typedEvent("response.output_text.delta", `"item_id":"i","delta":"hi"`)
	responseDone    = typedEvent("response.completed", `"response":{"id":"r","status":"completed","usage":{"input_tokens":7,"output_tokens":3,"total_tokens":10}}`)
	responseFailed  = typedEvent("response.failed", `"response":{"id":"r","status":"failed","error":{"code":"oom","message":"no memory"}}`)
)

const helloResponse = `{"model":"m1","input":"hi","stream":true}`

// TestResponsesStream: its last event is an end, nothing is added, and its
// usage counts.
func TestResponsesStream(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sent, want string
		outcome    traffic.Outcome
		tokens     int64
	}{
		"whole":      {responseDone, responseDone, traffic.Completed, 10},
		"with DONE":  {responseDone + doneEvent, responseDone + doneEvent, traffic.Completed, 10},
		"failed":     {responseFailed, responseFailed, traffic.UpstreamError, 0},
		"cut":        {"", "", traffic.UpstreamCut, 0},
		"error":      {"event: error\ndata: {\"type\":\"error\",\"code\":\"oom\",\"message\":\"no memory\"}\n\n", "", traffic.UpstreamError, 0},
		"long":       {typedEvent("response.completed", `"response":{"output":"`+strings.Repeat("x", 1<<20)+`","usage":{"input_tokens":7,"output_tokens":3}}`), "", traffic.Completed, 10},
		"incomplete": {strings.ReplaceAll(responseDone, "completed", "incomplete"), strings.ReplaceAll(responseDone, "completed", "incomplete"), traffic.Completed, 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			seen := make(chan string, 1)
			e := b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				seen <- r.URL.Path + string(body)
				events(responseCreated, responseDelta, c.sent)(w, r)
			})
			got := b.call(http.MethodPost, "/v1/responses", keyA, helloResponse)
			if want := `/v1/responses{"model":"engine-m1","input":"hi","stream":true}`; <-seen != want {
				t.Errorf("the engine got another request than %s", want)
			}
			rest, ok := strings.CutPrefix(got.body, responseCreated+responseDelta)
			switch {
			case !ok || c.want != "" && rest != c.want:
				t.Errorf("%q", got.body)
			case name == "long" && rest != c.sent:
				t.Errorf("%d bytes, want %d", len(rest), len(c.sent))
			case (name == "cut" || name == "error") && !strings.HasPrefix(rest, `data: {"error":{"message":`):
				t.Errorf("no visible error: %q", rest)
			}
			r := b.record(got.header.Get("X-Request-Id"))
			if r.Outcome != c.outcome || r.PromptTokens+r.CompletionTokens != c.tokens || r.FirstContentAt.IsZero() || r.Path != "/v1/responses" {
				t.Errorf("record %+v", r)
			}
			eventually(t, "the place to be given back", func() bool { return b.table.InFlight(e.UID) == 0 })
		})
	}
}

func TestResponsesAndRerankWhole(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const rerank = `{"results":[{"index":0,"relevance_score":1}],"usage":{"total_tokens":10}}`
	const response = `{"id":"r","object":"response","status":"completed","error":null,"output":[],"usage":{"input_tokens":7,"output_tokens":3}}`
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, map[string]string{"/v1/rerank": rerank, "/v1/responses": response}[r.URL.Path])
	})
	for path, c := range map[string]struct{ body, want string }{
		"/v1/rerank":    {`{"model":"m1","query":"a","documents":["a"]}`, rerank},
		"/v1/responses": {`{"model":"m1","input":"hi"}`, response},
	} {
		got := b.call(http.MethodPost, path, keyA, c.body)
		if r := b.record(got.header.Get("X-Request-Id")); got.body != c.want || r.Outcome != traffic.Completed || r.PromptTokens+r.CompletionTokens != 10 {
			t.Errorf("%s: %q, record %+v", path, got.body, r)
		}
	}
	refused := b.call(http.MethodPost, "/v1/responses", keyA, `{"model":"m1","input":"hi","background":true}`)
	if e := errorOf(t, refused); refused.status != 400 || e.Param != "background" {
		t.Errorf("background: %d %+v", refused.status, e)
	}
}

// transcriptionOf is a form with sound in it.
func transcriptionOf(t *testing.T, sound []byte, fields ...string) (contentType, body string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i < len(fields); i += 2 {
		if err := w.WriteField(fields[i], fields[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	part, err := w.CreateFormFile("file", "a.wav")
	if err == nil {
		_, err = part.Write(sound)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return w.FormDataContentType(), b.String()
}

func TestTranscription(t *testing.T) {
	t.Parallel()
	sound := bytes.Repeat([]byte("\x00\r\n--\xff"), 300_000)
	transcript := []string{
		`data: {"type":"transcript.text.delta","delta":"hi"}` + "\n\n",
		`data: {"type":"transcript.text.done","text":"hi","usage":{"input_tokens":7,"output_tokens":3}}` + "\n\n",
	}
	b := setup(t)
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(1 << 20); err != nil {
			t.Error(err)
		}
		file, _, err := r.FormFile("file")
		if err != nil {
			t.Error(err)
			return
		}
		if got, _ := io.ReadAll(file); !bytes.Equal(got, sound) || r.FormValue("model") != "engine-m1" {
			t.Errorf("the engine got %d bytes for model %q", len(got), r.FormValue("model"))
		}
		switch {
		case r.FormValue("stream") == "true":
			events(transcript...)(w, r)
		case r.FormValue("response_format") == "text":
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"text":"hi","usage":{"type":"tokens","input_tokens":7,"output_tokens":3}}`)
		}
	})
	for name, c := range map[string]struct {
		fields []string
		want   string
		tokens int64
	}{
		"JSON":      {nil, `{"text":"hi","usage":{"type":"tokens","input_tokens":7,"output_tokens":3}}`, 10},
		"stream":    {[]string{"stream", "true"}, strings.Join(transcript, ""), 10},
		"no speech": {[]string{"response_format", "text"}, "", 0},
	} {
		contentType, body := transcriptionOf(t, sound, append([]string{"model", "m1"}, c.fields...)...)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/v1/audio/transcriptions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+keyA)
		request.Header.Set("Content-Type", contentType)
		response, err := b.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		r := b.record(response.Header.Get("X-Request-Id"))
		if string(text) != c.want || err != nil || response.StatusCode != http.StatusOK || r.Outcome != traffic.Completed || r.PromptTokens+r.CompletionTokens != c.tokens {
			t.Errorf("%s: %d %q %v, record %+v", name, response.StatusCode, text, err, r)
		}
	}
	if refused := b.call(http.MethodPost, "/v1/audio/transcriptions", keyA, `{"model":"m1"}`); refused.status != 400 || errorOf(t, refused).Code != "unsupported_media_type" {
		t.Errorf("JSON instead of a form: %d %s", refused.status, refused.body)
	}
}
