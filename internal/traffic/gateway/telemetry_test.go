package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	names "github.com/prometheus/common/model"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway"
)

const callerTrace = "4bf92f3577b34da6a3ce929d0e0e4736"

// TestSpans: one span for each call of somebody known, inside the caller's
// trace, and the engine's are its children.
func TestSpans(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	b := setup(t, func(c *gateway.Config) { c.Tracer = provider.Tracer("test") })
	passed := make(chan string, 4)
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) {
		passed <- r.Header.Get("Traceparent")
		events(chunkEvent("secret words"), stopEvent, usageEvent, doneEvent)(w, r)
	})
	b.chat(keyA, helloStream, "Traceparent", "00-"+callerTrace+"-00f067aa0ba902b7-01")
	b.chat("mdk_aaaa_wrong", helloChat)
	b.chat(keyA, strings.Replace(helloChat, "m1", "nothing", 1))
	eventually(t, "the spans to end", func() bool { return len(spans.Ended()) == 2 })
	span, failed := spans.Ended()[0], spans.Ended()[1]
	if got := <-passed; !strings.HasPrefix(got, "00-"+callerTrace+"-"+span.SpanContext().SpanID().String()) {
		t.Errorf("the engine got traceparent %q", got)
	}
	attributes := map[string]string{}
	for _, a := range span.Attributes() {
		attributes[string(a.Key)] = fmt.Sprint(a.Value.AsInterface())
	}
	for name, want := range map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.request.model": "m1", "gen_ai.response.model": "team-a/m1@v1",
		"gen_ai.usage.input_tokens": "7", "gen_ai.usage.output_tokens": "3", "modeldock.outcome": "completed", "modeldock.tenant": "team-a",
	} {
		if attributes[name] != want {
			t.Errorf("%s is %q, want %q", name, attributes[name], want)
		}
	}
	if span.Name() != "chat m1" || span.SpanContext().TraceID().String() != callerTrace || len(span.Events()) != 3 {
		t.Errorf("span %q of trace %s with %d events", span.Name(), span.SpanContext().TraceID(), len(span.Events()))
	}
	if strings.Contains(fmt.Sprint(span.Attributes(), span.Events()), "secret words") {
		t.Error("the span holds what was said")
	}
	if failed.Name() != "chat nothing" || !strings.Contains(fmt.Sprint(failed.Attributes()), "model_not_found") {
		t.Errorf("span %q %v", failed.Name(), failed.Attributes())
	}
}

// TestTraceparentPasses: without a tracer the caller's trace is not broken.
func TestTraceparentPasses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const parent = "00-" + callerTrace + "-00f067aa0ba902b7-01"
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Traceparent"); got != parent {
			t.Errorf("traceparent %q", got)
		}
		_, _ = io.WriteString(w, wholeChat)
	})
	b.chat(keyA, helloChat, "Traceparent", parent)
}

// lockedBuffer is a log that a test reads while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.b.String()), "\n")
}

// TestAccessLog: one line for each request, whatever became of it, without
// keys and words.
func TestAccessLog(t *testing.T) {
	t.Parallel()
	var out lockedBuffer
	b := setup(t, func(c *gateway.Config) { c.AccessLog = slog.New(slog.NewJSONHandler(&out, nil)) })
	b.engine("team-a", "m1", "v1", events(chunkEvent("secret words"), stopEvent, usageEvent, doneEvent))
	b.chat(keyA, helloStream, "X-Request-Id", "mine")
	b.chat("mdk_aaaa_wrong", helloChat)
	b.call(http.MethodGet, "/nowhere%0A", keyA, "")
	eventually(t, "the lines", func() bool { return len(out.lines()) == 3 })
	var first struct {
		ClientRequestID, Tenant, Owner, Model, Version, Outcome, Endpoint, Path string
		Status, PromptTokens, CompletionTokens                                  int
		FirstContentMs, Ms                                                      float64
	}
	if err := json.Unmarshal([]byte(out.lines()[0]), &first); err != nil {
		t.Fatal(err)
	}
	if first.ClientRequestID != "mine" || first.Tenant != "team-a" || first.Model != "m1" || first.Outcome != string(traffic.Completed) ||
		first.Status != 200 || first.PromptTokens != 7 || first.FirstContentMs <= 0 || first.Ms < first.FirstContentMs || first.Endpoint == "" {
		t.Errorf("%+v", first)
	}
	if all := strings.Join(out.lines(), "\n"); strings.Contains(all, "secret") || strings.Contains(all, "wrong") {
		t.Errorf("a key or words are in\n%s", all)
	}
}

// TestMetricsAreWellFormed: what /metrics says can be parsed and follows
// Prometheus' own rules, and bogus models make no series.
func TestMetricsAreWellFormed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.engine("team-a", "m1", "v1", events(chunkEvent("a"), chunkEvent("b"), stopEvent, doneEvent))
	b.chat(keyA, helloStream)
	for i := range 100 {
		b.chat(keyA, strings.Replace(helloChat, "m1", fmt.Sprintf("bogus-%d", i), 1))
	}
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(b.registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	parser := expfmt.NewTextParser(names.UTF8Validation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"requests_total", "first_byte_seconds", "first_chunk_seconds", "inter_chunk_seconds", "queued_seconds", "in_flight", "queue_depth",
		"queue_age_seconds", "upstream_cancels_total", "retries_total", "endpoint_in_flight", "endpoint_in_flight_tokens",
		"endpoint_failures_total", "endpoint_breaker_open",
	} {
		if f := families["modeldock_gateway_"+name]; f == nil || len(f.GetMetric()) == 0 {
			t.Errorf("no modeldock_gateway_%s", name)
		} else if n := len(f.GetMetric()); n > 3 {
			t.Errorf("%s has %d series", name, n)
		}
	}
	if m := b.metrics("modeldock_gateway_endpoint_in_flight"); len(m) != 1 || m[e.UID+",team-a/m1,v1"] != 0 {
		t.Errorf("per replica: %v", m)
	}
	problems, err := testutil.GatherAndLint(b.registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", err, problems)
	}
}
