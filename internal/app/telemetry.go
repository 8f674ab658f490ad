package app

import (
	"context"
	"io"
	"log/slog"
	"os"

	"modeldock.io/internal/traffic/gateway"
	"modeldock.io/internal/traffic/spans"
)

// telemetry is what a gateway tells of each request beside its metrics and
// its evidence. Both parts are off unless they are asked for.
type telemetry struct {
	spans  spans.Sender
	access *slog.Logger
}

// openTelemetry prepares traces as the environment wants them and, if access
// is given, one line of JSON there for each request.
func openTelemetry(ctx context.Context, access io.Writer, log *slog.Logger) (t telemetry, err error) {
	if access != nil {
		t.access = slog.New(slog.NewJSONHandler(access, nil))
	}
	t.spans, err = spans.Open(ctx, os.Getenv, log)
	return t, err
}

func (t telemetry) configure(cfg gateway.Config) gateway.Config {
	cfg.Tracer, cfg.AccessLog = t.spans.Tracer(), t.access
	return cfg
}
