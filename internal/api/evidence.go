package api

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/api/wiretime"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/evidence"
	"modeldock.io/internal/traffic"
)

// GetEvidence joins the three accounts of one request.
func (s handlers) GetEvidence(c *gin.Context, id openapi.ID, params openapi.GetEvidenceParams) {
	ref, err := s.ref(c, id, params.Tenant)
	if err != nil {
		s.fail(c, err)
		return
	}
	if s.Recorded != nil {
		s.Recorded(c.Request.Context(), ref)
	}
	doc, err := s.collector.Explain(c.Request.Context(), ref)
	if err != nil {
		s.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, evidenceWire(doc))
}

func evidenceWire(d evidence.Document) openapi.Evidence {
	out := openapi.Evidence{
		Id: d.Ref.ID, Tenant: d.Ref.Tenant,
		Answers: openapi.Answers{
			BudgetSpentOnce: d.Answers.BudgetSpentOnce, ModelStarted: d.Answers.ModelStarted, FirstChunkDelivered: d.Answers.FirstChunkDelivered,
		},
		BrokenAt: some(d.BrokenAt), Reason: some(d.Reason), Message: some(d.Message), NextAction: some(d.NextAction),
		Steps: make([]openapi.EvidenceStep, 0, len(d.Steps)),
	}
	for _, st := range d.Steps {
		out.Steps = append(out.Steps, openapi.EvidenceStep{
			Seq: st.Seq, Account: openapi.EvidenceStepAccount(st.Account), Step: openapi.EvidenceStepStep(st.Name),
			Status: openapi.EvidenceStepStatus(st.Status), At: wiretime.Pointer(st.At), Source: st.Source,
			Reason: some(st.Reason), Facts: st.Facts, Expected: some(st.Expected), Found: some(st.Found),
		})
	}
	return out
}

// GetTrace answers one inference request's record to its caller, to the
// model's owner and to those who read all. Which request of the owner's it was,
// and where it ran, is the owner's business.
func (s handlers) GetTrace(c *gin.Context, requestID string) {
	i, err := s.inference(c.Request.Context(), requestID)
	p := who(c)
	if err == nil && !p.readsAll() && i.Tenant != p.Tenant && i.Owner != p.Tenant {
		err = budget.ErrNotFound
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	if !p.readsAll() && i.Owner != p.Tenant {
		i.ReservationID, i.EndpointUID, i.ObjectUID = "", "", ""
	}
	c.JSON(http.StatusOK, traceWire(i))
}

// inference reads a record, also one that is still on its way to the store.
func (s *Server) inference(ctx context.Context, requestID string) (traffic.Inference, error) {
	if s.Recent != nil {
		if i, ok := s.Recent(requestID); ok {
			return i, nil
		}
	}
	return s.Evidence.Inference(ctx, requestID)
}

func traceWire(i traffic.Inference) openapi.Trace {
	return openapi.Trace{
		RequestId: i.RequestID, ClientRequestId: some(i.ClientRequestID), Tenant: i.Tenant, Owner: some(i.Owner),
		Model: i.Model, Version: some(i.Version), Reservation: some(i.ReservationID), EndpointUid: some(i.EndpointUID),
		ObjectUid: some(i.ObjectUID), Path: i.Path, Stream: i.Stream, Status: i.Status,
		Outcome: some(openapi.TraceOutcome(i.Outcome)), Error: some(i.Error), ReceivedAt: wire(i.ReceivedAt),
		QueuedSeconds: some(i.QueuedFor.Seconds()), SentAt: wiretime.Pointer(i.SentAt),
		FirstByteAt: wiretime.Pointer(i.FirstByteAt), FirstContentAt: wiretime.Pointer(i.FirstContentAt),
		LastByteAt: wiretime.Pointer(i.LastByteAt), DoneAt: wiretime.Pointer(i.DoneAt),
		PromptTokens: some(i.PromptTokens), CompletionTokens: some(i.CompletionTokens),
	}
}
