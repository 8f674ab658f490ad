package evidence

import (
	"fmt"
	"time"

	"modeldock.io/internal/delivery"
	"modeldock.io/internal/traffic"
)

func (f Facts) routable() Step {
	s := notYet(StepRoutable, "gateway:endpoints")
	if len(f.Endpoints) > 0 {
		e := f.Endpoints[0]
		s.Status, s.Reason, s.At = OK, "", e.Since
		s.Facts = map[string]any{"endpoints": len(f.Endpoints), "endpointUid": e.UID, "address": e.Address}
		return s
	}
	switch {
	case f.ended() && f.everReady():
		s.Status, s.Reason = OK, ""
		if f.Binding != nil {
			s.At = f.Binding.FirstReadyAt
		}
		s.Facts = map[string]any{"endpoints": 0, "until": f.Reservation.ReleaseRequestedAt.UTC().Format(time.RFC3339Nano)}
	case f.asleep():
		s.Reason = string(delivery.ScaledToZero)
		s.Facts = map[string]any{"endpoints": 0}
	case f.EndpointsErr != nil && f.everReady():
		s.Status, s.Reason, s.Found = Unknown, ReasonUnreadable, f.EndpointsErr.Error()
	case f.everReady():
		s.Reason = ReasonNotRoutable
		f.unroutable(&s)
	}
	return s
}

// routingDeadline is how long an endpoint of a ready replica may be on its way
// to the gateways.
const routingDeadline = 30 * time.Second

// unroutable names why a model that was ready is not served now, where its
// replicas tell: all of them are ending, or do not answer their health check,
// or are ready and still no gateway has got to know of one.
func (f Facts) unroutable(s *Step) {
	if f.Status == nil || len(f.Status.Replicas) == 0 {
		return
	}
	if f.Status.Ready > 0 {
		f.unknownToGateways(s)
		return
	}
	ending, silent := 0, 0
	for _, r := range f.Status.Replicas {
		switch {
		case r.Phase == delivery.PhaseTerminating:
			ending++
		case r.Phase == delivery.PhaseLoading && r.EverReady:
			silent++
		}
	}
	s.Facts = map[string]any{"endpoints": 0, "terminating": ending, "notReady": silent}
	switch {
	case silent > 0:
		s.Status, s.Reason = Broken, ReasonNotReady
	case ending == len(f.Status.Replicas):
		s.Status, s.Reason = Broken, ReasonTerminating
	default:
		return
	}
	s.Expected = "an endpoint that takes calls"
	s.Found = fmt.Sprintf("none: of %d replicas, %d do not answer their health check any more and %d are ending", len(f.Status.Replicas), silent, ending)
}

func (f Facts) unknownToGateways(s *Step) {
	s.Facts = map[string]any{"endpoints": 0, "ready": f.Status.Ready}
	r := longestReady(f.Status.Replicas)
	if r == nil || r.ReadyAt.IsZero() || f.Now.Sub(r.ReadyAt) < routingDeadline {
		return
	}
	s.Status = Broken
	s.Expected = fmt.Sprintf("an endpoint of a ready replica within %s", routingDeadline)
	s.Found = fmt.Sprintf("none at any gateway: %s has been ready since %s", r.Name, r.ReadyAt.UTC().Format(time.RFC3339))
}

func (f Facts) permitted() Step {
	s := Step{Name: StepPermitted, Source: "ledger:api_key,model_grant", Status: OK, Facts: map[string]any{"owner": f.Reservation.Tenant, "liveKeys": f.LiveKeys}}
	var grantees []string
	for _, g := range f.Grants {
		if g.Owner == f.Reservation.Tenant && g.Model == f.Reservation.Model.Name {
			grantees = append(grantees, g.Grantee)
		}
	}
	s.Facts["grantees"] = len(grantees)
	// Whoever called a model that is gone by now was permitted then.
	proven := f.ended() && f.First != nil
	if f.LiveKeys == 0 && len(grantees) == 0 && !proven {
		s.Status, s.Reason = Broken, ReasonNoLiveKey
		s.Expected, s.Found = "a live key of the owner, or a grant", "neither"
	}
	return s
}

func (f Facts) firstChunk() Step {
	s := Step{Name: StepFirstChunk, Source: "gateway:evidence", Status: Pending, Reason: ReasonNotCalled}
	if c := f.First; c != nil {
		s.Status, s.Reason, s.At = OK, "", c.At
		s.Facts = map[string]any{"requestId": c.InferenceID, "endpointUid": c.EndpointUID, "caller": c.Tenant, "firstChunkMilliseconds": float64(c.At.Sub(c.SentAt).Microseconds()) / 1000}
		stamp(s.Facts, "sentAt", c.SentAt)
		stamp(s.Facts, "firstByteAt", c.FirstByteAt)
		stamp(s.Facts, "doneAt", c.DoneAt)
		if f.Latest != nil {
			s.Facts["latestRequestId"] = f.Latest.InferenceID
			stamp(s.Facts, "latestAt", f.Latest.At)
		}
		return s
	}
	call := f.LastCall
	if call == nil {
		return s
	}
	s.Reason, s.At = string(call.Outcome), call.ReceivedAt
	s.Facts = map[string]any{"requestId": call.RequestID, "status": call.Status}
	s.Found = call.Error
	if f.lostChunk() {
		s.Status = Broken
		s.Expected = "a first content chunk flushed to the caller"
	}
	if call.Outcome == traffic.Completed {
		s.Reason = ReasonNoContent
	}
	return s
}

func stamp(facts map[string]any, key string, t time.Time) {
	if !t.IsZero() {
		facts[key] = t.UTC().Format("2006-01-02T15:04:05.000000Z")
	}
}
