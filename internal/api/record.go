package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/api/wiretime"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/evidence"
)

func wire(t time.Time) wiretime.Time { return wiretime.Time(t) }

// record joins a reservation with why it waits, or with what its target shows.
func (s *Server) record(ctx context.Context, r budget.Reservation) (openapi.Request, error) {
	if r.State == budget.Waiting {
		st, err := s.Ledger.Standing(ctx, r.Ref)
		switch {
		case err == nil:
			return waitingRecord(r, st, s.standstill()), nil
		case !errors.Is(err, budget.ErrFinal):
			return openapi.Request{}, fmt.Errorf("read why the request waits: %w", err)
		}
		// It moved on between the two reads.
		if r, err = s.Ledger.Get(ctx, r.Ref); err != nil {
			return openapi.Request{}, err
		}
	}
	return s.settledRecord(ctx, r)
}

// records is record for a page: all that wait are explained from one snapshot.
func (s *Server) records(ctx context.Context, rows []budget.Reservation) ([]openapi.Request, error) {
	var waiting []budget.Ref
	for _, r := range rows {
		if r.State == budget.Waiting {
			waiting = append(waiting, r.Ref)
		}
	}
	standings, err := s.Ledger.Standings(ctx, waiting)
	if err != nil {
		return nil, fmt.Errorf("read why requests wait: %w", err)
	}
	out, standstill := make([]openapi.Request, 0, len(rows)), s.standstill()
	for _, r := range rows {
		if st, ok := standings[r.Ref]; ok {
			out = append(out, waitingRecord(r, st, standstill))
			continue
		}
		rec, err := s.record(ctx, r)
		if err != nil {
			return nil, err
		}
		out = append(out, rec)
	}
	return out, nil
}

func bareRecord(r budget.Reservation) openapi.Request {
	return openapi.Request{
		Id: r.ID, Tenant: r.Tenant, Revision: r.Revision, Generation: r.Generation,
		Cost: r.Cost, Held: r.Held, FundedReplicas: r.Funded, Priority: r.Priority, State: openapi.State(r.State),
		Pool: r.Pool, Node: some(r.Node), Model: modelWire(r.Model), Submits: r.Submits,
		CreatedAt: wire(r.CreatedAt), ReservedAt: wiretime.Pointer(r.ReservedAt),
		ReleaseRequestedAt: wiretime.Pointer(r.ReleaseRequestedAt), ReleasedAt: wiretime.Pointer(r.ReleasedAt),
		ExpiresAt: wire(r.ExpiresAt),
	}
}

func waitingRecord(r budget.Reservation, st budget.Standing, standstill string) openapi.Request {
	rec := bareRecord(r)
	if standstill != "" {
		st.Message = standstill + " (" + st.Message + ")"
	}
	reason := string(st.Reason)
	rec.Reason, rec.Message = &reason, &st.Message
	rec.Standing = &openapi.Standing{
		Need: st.Need, TenantUsed: st.TenantUsed, TenantCap: st.TenantCap,
		PoolUsed: st.PoolUsed, PoolCap: st.PoolCap, Ahead: st.Ahead,
	}
	if st.Behind != nil && st.Behind.Tenant == r.Tenant {
		rec.Standing.Behind = &st.Behind.ID
	}
	return rec
}

func (s *Server) settledRecord(ctx context.Context, r budget.Reservation) (openapi.Request, error) {
	rec := bareRecord(r)
	b, err := s.Ledger.Binding(ctx, r.Ref)
	switch {
	case err == nil:
		rec.Object = &openapi.ObjectRef{Namespace: some(b.Namespace), Name: b.Name, Uid: b.UID}
		rec.EverReady = b.EverReady
	case !errors.Is(err, budget.ErrNotFound):
		return rec, fmt.Errorf("read the binding: %w", err)
	}
	if r.State != budget.Reserved {
		rec.Reason, rec.Message = ending(r)
		return rec, nil
	}
	if rec.Object == nil {
		return rec, s.withOutbox(ctx, r, &rec)
	}
	if s.withStatus(ctx, r, &rec) {
		return rec, s.withOutbox(ctx, r, &rec)
	}
	return rec, nil
}

// ending says why a request ended without ever being reserved.
func ending(r budget.Reservation) (reason, message *string) {
	switch {
	case r.State == budget.Expired:
		text := fmt.Sprintf("it waited until %s without being admitted and never held slots", r.ExpiresAt.UTC().Format(time.RFC3339))
		return some(evidence.ReasonExpired), &text
	case r.ReservedAt.IsZero():
		text := "it was released while it waited and never held slots"
		return some(evidence.ReasonCancelled), &text
	}
	return nil, nil
}

// withOutbox explains a reservation that has not reached its target, or a
// change of it that has not.
func (s *Server) withOutbox(ctx context.Context, r budget.Reservation, rec *openapi.Request) error {
	intents, err := s.Ledger.Intents(ctx, r.Ref)
	if err != nil {
		return fmt.Errorf("read the outbox: %w", err)
	}
	reason, message := string(delivery.Undelivered), "reserved; being delivered"
	if rec.Object != nil { // it was delivered before
		if !slices.ContainsFunc(intents, func(in budget.Intent) bool { return in.DeliveredAt.IsZero() }) {
			return nil // and the target is at it
		}
		message = fmt.Sprintf("generation %d is being delivered", r.Generation)
	}
	for _, in := range intents {
		if in.DeliveredAt.IsZero() && in.LastError != "" {
			message = fmt.Sprintf("delivery failed %d times and is tried again at %s: %s", in.Attempts, in.NextAttemptAt.UTC().Format(time.RFC3339), in.LastError)
			if delivery.IsNameTaken(in.LastError) {
				reason = string(delivery.NameTaken)
			}
		}
	}
	rec.Reason, rec.Message = &reason, &message
	return nil
}

// withStatus tells what the target shows of a delivered reservation, and
// reports whether that is an older generation of it.
func (s *Server) withStatus(ctx context.Context, r budget.Reservation, rec *openapi.Request) (older bool) {
	st, err := s.Target.Observe(ctx, r.Ref)
	if err != nil {
		reason, message := "Unknown", "the target could not be read: "+err.Error()
		rec.Reason, rec.Message = &reason, &message
		return false
	}
	reason, message := string(st.Reason), st.Message
	if !st.Exists && reason == "" {
		reason, message = evidence.ReasonLost, "the object "+rec.Object.Name+" is not there; it is made again"
	}
	if !r.ReleaseRequestedAt.IsZero() && st.Reason != delivery.ReleaseBlocked {
		reason = string(delivery.Draining)
		message = fmt.Sprintf("release requested; replicas still there: %d; the slots come back when they are gone", len(st.Replicas))
	}
	if reason != "" {
		rec.Reason = &reason
	}
	if message != "" {
		rec.Message = &message
	}
	rec.ReadyReplicas = st.Ready
	rec.EverReady = rec.EverReady || st.Ready > 0
	return st.Exists && st.Generation < r.Generation && r.ReleaseRequestedAt.IsZero()
}
