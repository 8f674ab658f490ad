package app

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/traffic"
)

// collected is an OpenTelemetry collector that keeps what it is sent.
type collected struct {
	*testing.T
	mu    sync.Mutex
	spans []*otlp.Span
}

func (c *collected) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err == nil && r.Header.Get("Content-Encoding") == "gzip" {
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(raw)); err == nil {
			raw, err = io.ReadAll(z)
		}
	}
	sent := new(collector.ExportTraceServiceRequest)
	if err == nil {
		err = proto.Unmarshal(raw, sent)
	}
	if err != nil {
		c.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range sent.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
}

// One trace id from the submit to the first chunk, told once; each call of the
// model is linked to it. It sets the environment, so it runs alone.
func TestOneTraceFromSubmitToFirstChunk(t *testing.T) {
	got := &collected{T: t}
	server := httptest.NewServer(got)
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
	r := up(t, nil)
	r.ask("team-a", "POST", "/requests", `{"id":"one","cost":1,"priority":1}`)
	r.eventually("team-a", "/requests/one", `"readyReplicas":1`)
	for range 3 {
		if status, _, text := r.ask("team-a", "POST", "/v1/chat/completions", `{"model":"one","stream":true,"messages":[{"role":"user","content":"x"}]}`); status != 200 {
			t.Fatalf("the call answered %d: %s", status, text)
		}
	}
	find := func() (parts map[string]*otlp.Span, calls []*otlp.Span, again int) {
		got.mu.Lock()
		defer got.mu.Unlock()
		parts = map[string]*otlp.Span{}
		for _, s := range got.spans {
			if s.Name == "chat one" {
				calls = append(calls, s)
			} else if parts[s.Name] != nil {
				again++
			} else {
				parts[s.Name] = s
			}
		}
		return parts, calls, again
	}
	deadline := time.Now().Add(2 * patience)
	parts, calls, again := find()
	for len(parts) < 5 || len(calls) < 3 {
		if time.Now().After(deadline) {
			t.Fatalf("%d parts and %d calls came: %v", len(parts), len(calls), parts)
		}
		time.Sleep(20 * time.Millisecond)
		parts, calls, again = find()
	}
	root := parts["request one"]
	if root == nil || len(root.ParentSpanId) != 0 || again > 0 {
		t.Fatalf("%d parts were told twice; root %v", again, root)
	}
	for _, name := range []string{"wait for budget", "deliver", "start", "first chunk"} {
		p := parts[name]
		if p == nil || !bytes.Equal(p.TraceId, root.TraceId) || !bytes.Equal(p.ParentSpanId, root.SpanId) || p.StartTimeUnixNano > p.EndTimeUnixNano || p.StartTimeUnixNano < root.StartTimeUnixNano || p.EndTimeUnixNano > root.EndTimeUnixNano {
			t.Errorf("%s: %v, of %v", name, p, root)
		}
	}
	for _, call := range calls {
		if len(call.Links) != 1 || !bytes.Equal(call.Links[0].TraceId, root.TraceId) || !bytes.Equal(call.Links[0].SpanId, root.SpanId) {
			t.Errorf("the call is linked to %v, not to %x", call.Links, root.TraceId)
		}
	}
}

// A call may be answered before anybody wrote down that its model is ready.
func TestReadinessIsNoLaterThanTheCall(t *testing.T) {
	t.Parallel()
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	call := traffic.Inference{SentAt: at(10)}
	for _, c := range []struct {
		bound budget.Binding
		want  int64
	}{
		{budget.Binding{BoundAt: at(1), EverReady: true, FirstReadyAt: at(5)}, 5},
		{budget.Binding{BoundAt: at(1), EverReady: true, FirstReadyAt: at(11)}, 10},
		{budget.Binding{BoundAt: at(1)}, 10},
		{budget.Binding{BoundAt: at(12)}, 12},
	} {
		if got := readyBefore(c.bound, call); !got.Equal(at(c.want)) {
			t.Errorf("%+v: ready at %d, want %d", c.bound, got.Unix(), c.want)
		}
	}
}
