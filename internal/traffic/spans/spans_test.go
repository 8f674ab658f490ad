package spans_test

import (
	"compress/gzip"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"modeldock.io/internal/traffic/spans"
)

// TestSend sends to a collector, over HTTP as collectors take it. It sets the
// environment, which the exporter reads by itself, so it runs alone.
func TestSend(t *testing.T) {
	got := make(chan *collector.ExportTraceServiceRequest, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Error(err)
				return
			}
			body = z
		}
		raw, _ := io.ReadAll(body)
		sent := new(collector.ExportTraceServiceRequest)
		if err := proto.Unmarshal(raw, sent); err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		got <- sent
	}))
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	sender, err := spans.Open(t.Context(), os.Getenv, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, span := sender.Tracer().Start(t.Context(), "chat m1")
	span.End()
	if err := sender.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	sent := (<-got).ResourceSpans[0]
	if name := sent.ScopeSpans[0].Spans[0].Name; name != "chat m1" || !strings.Contains(sent.Resource.String(), "modeldock-gateway") {
		t.Errorf("span %q of %s", name, sent.Resource)
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	open := func(pairs ...string) (spans.Sender, error) {
		return spans.Open(t.Context(), func(name string) string {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1]
				}
			}
			return ""
		}, slog.New(slog.DiscardHandler))
	}
	for _, env := range [][]string{nil, {"OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1", "OTEL_SDK_DISABLED", "true"}} {
		sender, err := open(env...)
		if err != nil || sender.Tracer() != nil || sender.Close(t.Context()) != nil {
			t.Errorf("%v: traces are sent, or %v", env, err)
		}
	}
	if _, err := open("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"); err == nil || !strings.Contains(err.Error(), "4318") {
		t.Errorf("gRPC: %v", err)
	}
}
