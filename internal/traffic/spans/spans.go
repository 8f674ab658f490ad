// Package spans sends the traffic account's traces to an OpenTelemetry
// collector: one span for each call of a model, with the gen_ai attributes of
// the semantic conventions, and one trace of each reservation from its submit to
// its first chunk, which the calls of its model are linked to. Nothing is made or sent unless the environment
// names a collector.
package spans

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// The environment variables of the OpenTelemetry specification that are read
// here; the SDK reads more, for example OTEL_EXPORTER_OTLP_HEADERS,
// OTEL_TRACES_SAMPLER and OTEL_RESOURCE_ATTRIBUTES.
const (
	variableEndpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	variableTraces   = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	variableProtocol = "OTEL_EXPORTER_OTLP_PROTOCOL"
	variableDisabled = "OTEL_SDK_DISABLED"
)

// scope names the instrumentation in every span.
const scope = "modeldock.io/internal/traffic/gateway"

// Sender keeps spans in a bounded queue and sends them in batches. The zero
// value sends nothing.
type Sender struct{ provider *sdktrace.TracerProvider }

// Open returns a sender as the environment wants it: one that sends nothing if
// no collector is named. The collector need not be there: spans that cannot be
// sent are dropped and logged.
func Open(ctx context.Context, getenv func(string) string, log *slog.Logger) (Sender, error) {
	return OpenAs(ctx, "modeldock-gateway", getenv, log)
}

// OpenAs is Open for a process of another name.
func OpenAs(ctx context.Context, service string, getenv func(string) string, log *slog.Logger) (Sender, error) {
	if getenv(variableDisabled) == "true" || getenv(variableEndpoint) == "" && getenv(variableTraces) == "" {
		return Sender{}, nil
	}
	if p := getenv(variableProtocol); p != "" && p != "http/protobuf" {
		return Sender{}, fmt.Errorf("%s is %q: only http/protobuf is sent; leave it out and name the collector's HTTP port, usually 4318", variableProtocol, p)
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return Sender{}, fmt.Errorf("prepare to send traces: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", service)), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return Sender{}, fmt.Errorf("describe this process in traces: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces cannot be sent", "error", err) }))
	return Sender{sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about), sdktrace.WithIDGenerator(ids{}))}, nil
}

// Tracer makes the spans; nil if none are sent.
func (s Sender) Tracer() trace.Tracer {
	if s.provider == nil {
		return nil
	}
	return s.provider.Tracer(scope)
}

// Close sends what is queued, as far as ctx allows.
func (s Sender) Close(ctx context.Context) error {
	if s.provider == nil {
		return nil
	}
	if err := s.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("send the last traces: %w", err)
	}
	return nil
}
