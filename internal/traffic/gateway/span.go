package gateway

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway/wire"
)

// beginSpan opens the span of a call whose caller is known: strangers make
// none. It continues the caller's trace, if there is one.
func (x *exchange) beginSpan(op operation) {
	if x.g.cfg.Tracer == nil {
		return
	}
	ctx := propagation.TraceContext{}.Extract(x.r.Context(), propagation.HeaderCarrier(x.r.Header))
	_, x.span = x.g.cfg.Tracer.Start(ctx, op.name, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(x.rec.ReceivedAt),
		trace.WithAttributes(
			attribute.String("gen_ai.operation.name", op.name),
			attribute.String("gen_ai.provider.name", "modeldock"),
			attribute.String("modeldock.request_id", x.rec.RequestID),
			attribute.String("modeldock.tenant", x.rec.Tenant),
		))
}

// nameSpan adds the model as it was asked for, known to exist or not.
func (x *exchange) nameSpan(op operation, asked *wire.Request) {
	if x.span == nil || !x.span.IsRecording() {
		return
	}
	x.span.SetName(op.name + " " + x.rec.Model)
	x.span.SetAttributes(attribute.String("gen_ai.request.model", x.rec.Model))
	if each, _ := op.answers(asked); each > 0 {
		x.span.SetAttributes(attribute.Int64("gen_ai.request.max_tokens", each))
	}
}

// passSpan tells the engine of which span its own are children. Without a
// tracer the caller's header passes as it is.
func (x *exchange) passSpan(h http.Header) {
	if x.span != nil {
		propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), x.span), propagation.HeaderCarrier(h))
	}
}

// endSpan says how the call went. What was said in it is never part of a span.
func (x *exchange) endSpan() {
	if x.span == nil {
		return
	}
	defer x.span.End(trace.WithTimestamp(x.now()))
	if !x.span.IsRecording() {
		return
	}
	rec := &x.rec
	x.span.SetAttributes(
		attribute.Int("http.response.status_code", rec.Status),
		attribute.String("modeldock.outcome", string(rec.Outcome)),
		attribute.Float64("modeldock.queued_seconds", rec.QueuedFor.Seconds()),
		attribute.Bool("gen_ai.request.stream", rec.Stream),
	)
	if rec.ReservationID != "" {
		x.linkSpan(rec)
		x.span.SetAttributes(attribute.String("gen_ai.response.model", rec.Owner+"/"+rec.Model+"@"+rec.Version))
	}
	if rec.EndpointUID != "" {
		x.span.SetAttributes(attribute.String("modeldock.endpoint", rec.EndpointUID))
	}
	if rec.PromptTokens+rec.CompletionTokens > 0 {
		x.span.SetAttributes(
			attribute.Int64("gen_ai.usage.input_tokens", rec.PromptTokens),
			attribute.Int64("gen_ai.usage.output_tokens", rec.CompletionTokens),
		)
	}
	if rec.Outcome != traffic.Completed {
		kind := rec.Error
		if kind == "" {
			kind = string(rec.Outcome)
		}
		x.span.SetAttributes(attribute.String("error.type", kind))
		x.span.SetStatus(codes.Error, string(rec.Outcome))
	}
	for name, at := range map[string]time.Time{"sent": rec.SentAt, "first byte": rec.FirstByteAt, "first content": rec.FirstContentAt} {
		if !at.IsZero() {
			x.span.AddEvent(name, trace.WithTimestamp(at))
		}
	}
	if !rec.FirstContentAt.IsZero() {
		x.span.SetAttributes(attribute.Float64("gen_ai.response.time_to_first_chunk", rec.FirstContentAt.Sub(rec.ReceivedAt).Seconds()))
	}
}

// linkSpan names the trace of the reservation that the call was served by.
func (x *exchange) linkSpan(rec *traffic.Inference) {
	s := x.g.cfg.Snapshot()
	if s == nil || s.Ledger == "" {
		return
	}
	id, root := traffic.JourneyID(s.Ledger, rec.Owner, rec.ReservationID)
	x.span.AddLink(trace.Link{
		SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: root, TraceFlags: trace.FlagsSampled, Remote: true}),
		Attributes:  []attribute.KeyValue{attribute.String("modeldock.reservation", rec.ReservationID)},
	})
}
