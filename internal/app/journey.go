package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/spans"
)

// maxTold bounds what is remembered of journeys that were told: what is
// forgotten costs one more question, and is not told again.
const maxTold = 10_000

// journeys tells traces of reservations, from their submit to the first chunk
// of an answer, once evidence proves that one was delivered.
type journeys struct {
	spans  spans.Sender
	ledger store
	log    *slog.Logger

	mu   sync.Mutex
	told map[budget.Ref]struct{}
}

// put stores evidence; it is the sink of gateways.
func (j *journeys) put(ctx context.Context, batch []traffic.Inference) error {
	if err := j.ledger.PutInferences(ctx, batch); err != nil {
		return err
	}
	if j.spans.Tracer() == nil {
		return nil
	}
	for _, i := range batch {
		ref := budget.Ref{Tenant: i.Owner, ID: i.ReservationID}
		if i.FirstContentAt.IsZero() || i.ReservationID == "" || !j.news(ref) {
			continue
		}
		if err := j.tell(ctx, ref, i); err != nil { // a trace is a help, no more
			j.log.Warn("a request's trace is not told", "tenant", ref.Tenant, "id", ref.ID, "error", err)
		}
	}
	return nil
}

// news reports whether a reservation was not looked at yet.
func (j *journeys) news(ref budget.Ref) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, known := j.told[ref]; known {
		return false
	}
	if j.told == nil || len(j.told) >= maxTold {
		j.told = map[budget.Ref]struct{}{}
	}
	j.told[ref] = struct{}{}
	return true
}

// tell sends the trace if the record is the reservation's first chunk.
func (j *journeys) tell(ctx context.Context, ref budget.Ref, i traffic.Inference) error {
	first, _, err := j.ledger.Chunks(ctx, ref)
	if err != nil || first == nil || first.InferenceID != i.RequestID {
		return err
	}
	r, err := j.ledger.Get(ctx, ref)
	if err != nil {
		return err
	}
	bound, err := j.ledger.Binding(ctx, ref)
	if err != nil {
		return err
	}
	incarnation, _, err := j.ledger.Identity(ctx)
	if err != nil {
		return err
	}
	j.spans.Tell(spans.Journey{
		Ledger: incarnation, Tenant: ref.Tenant, ID: ref.ID, Model: r.Model.Name + "@" + r.Model.Version, ObjectUID: bound.UID, EndpointUID: i.EndpointUID, InferenceID: i.RequestID,
		SubmittedAt: r.CreatedAt, ReservedAt: r.ReservedAt, DeliveredAt: bound.BoundAt, ReadyAt: readyBefore(bound, i), CalledAt: i.ReceivedAt, FirstChunkAt: i.FirstContentAt,
	})
	return nil
}

// readyBefore is when the first replica was ready. That is written down a while
// after it was; the call that it answered proves that it was by then.
func readyBefore(bound budget.Binding, call traffic.Inference) time.Time {
	if bound.EverReady && !bound.FirstReadyAt.After(call.SentAt) {
		return bound.FirstReadyAt
	}
	if call.SentAt.Before(bound.BoundAt) {
		return bound.BoundAt
	}
	return call.SentAt
}
