package spans

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"modeldock.io/internal/traffic"
)

// Journey is what became of one reservation until its first answer began. It
// is told once, when the last of it is known.
type Journey struct {
	Ledger, Tenant, ID, Model, ObjectUID, EndpointUID, InferenceID string

	SubmittedAt, ReservedAt, DeliveredAt, ReadyAt, CalledAt, FirstChunkAt time.Time // zero: not known
}

// Tell sends the journey as one trace: a root over all of it, and one span for
// each of its parts. Told again, it has the same ids.
func (s Sender) Tell(j Journey) {
	tracer := s.Tracer()
	if tracer == nil {
		return
	}
	id, root := traffic.JourneyID(j.Ledger, j.Tenant, j.ID)
	ctx := context.WithValue(context.Background(), chosenKey{}, chosen{id, root})
	ctx, whole := tracer.Start(ctx, "request "+j.ID, trace.WithNewRoot(), trace.WithTimestamp(j.SubmittedAt), trace.WithAttributes(
		attribute.String("modeldock.tenant", j.Tenant), attribute.String("modeldock.reservation", j.ID), attribute.String("modeldock.model", j.Model),
		attribute.String("modeldock.object_uid", j.ObjectUID), attribute.String("modeldock.endpoint", j.EndpointUID), attribute.String("modeldock.request_id", j.InferenceID),
	))
	for i, part := range []struct {
		name     string
		from, to time.Time
	}{
		{"wait for budget", j.SubmittedAt, j.ReservedAt}, {"deliver", j.ReservedAt, j.DeliveredAt}, {"start", j.DeliveredAt, j.ReadyAt}, {"first chunk", j.CalledAt, j.FirstChunkAt},
	} {
		if part.from.IsZero() || part.to.IsZero() {
			continue
		}
		own := root
		own[0] ^= byte(i + 1)
		_, span := tracer.Start(context.WithValue(ctx, chosenKey{}, chosen{id, own}), part.name, trace.WithTimestamp(part.from))
		span.End(trace.WithTimestamp(part.to))
	}
	whole.End(trace.WithTimestamp(j.FirstChunkAt))
}

// chosen are the ids of a span whose ids are not random.
type chosen struct {
	trace trace.TraceID
	span  trace.SpanID
}

type chosenKey struct{}

// ids makes random ids, unless the context has chosen ones.
type ids struct{}

func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if c, ok := ctx.Value(chosenKey{}).(chosen); ok {
		return c.trace, c.span
	}
	var id trace.TraceID
	for !id.IsValid() {
		putRandom(id[:8])
		putRandom(id[8:])
	}
	return id, randomSpan()
}

func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if c, ok := ctx.Value(chosenKey{}).(chosen); ok {
		return c.span
	}
	return randomSpan()
}

func randomSpan() (id trace.SpanID) {
	for !id.IsValid() {
		putRandom(id[:])
	}
	return id
}

func putRandom(b []byte) {
	binary.LittleEndian.PutUint64(b, rand.Uint64()) //nolint:gosec // it names a span, and keeps no secret
}
