package gateway

import (
	"log/slog"
	"time"
)

// logAccess writes the request's one line, if that is wanted. It names who
// asked which model and how it went, never what was said.
func (x *exchange) logAccess() {
	log := x.g.cfg.AccessLog
	if log == nil {
		return
	}
	r := &x.rec
	after := func(at time.Time) float64 { // in milliseconds; 0 if it was not reached
		if at.IsZero() {
			return 0
		}
		return float64(at.Sub(r.ReceivedAt).Microseconds()) / 1000
	}
	log.LogAttrs(x.r.Context(), slog.LevelInfo, "request",
		slog.String("requestID", r.RequestID), slog.String("clientRequestID", r.ClientRequestID),
		slog.String("method", printable(x.r.Method)), slog.String("path", typedName(r.Path)), slog.String("protocol", x.r.Proto),
		slog.Int("status", r.Status), slog.String("outcome", string(r.Outcome)), slog.String("error", r.Error),
		slog.String("tenant", r.Tenant), slog.String("key", r.KeyID),
		slog.String("owner", r.Owner), slog.String("model", r.Model), slog.String("version", r.Version), slog.String("endpoint", r.EndpointUID),
		slog.Bool("stream", r.Stream), slog.Int64("promptTokens", r.PromptTokens), slog.Int64("completionTokens", r.CompletionTokens),
		slog.Float64("queuedMs", float64(r.QueuedFor.Microseconds())/1000), slog.Float64("sentMs", after(r.SentAt)),
		slog.Float64("firstByteMs", after(r.FirstByteAt)), slog.Float64("firstContentMs", after(r.FirstContentAt)), slog.Float64("ms", after(x.now())),
	)
}
