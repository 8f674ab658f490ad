package api

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/elastic"
	"modeldock.io/internal/elastic/scaler"
)

// GetScaling answers why a model has the number of replicas that it has.
func (s handlers) GetScaling(c *gin.Context, id openapi.ID, params openapi.GetScalingParams) {
	ref, ok := s.existing(c, id, params.Tenant)
	if !ok {
		return
	}
	rep, err := s.Scaling.Explain(c.Request.Context(), ref)
	if err != nil {
		s.fail(c, err)
		return
	}
	s.unread.Works()
	c.JSON(http.StatusOK, reportWire(rep))
}

func reportWire(rep scaler.Report) openapi.ScalingReport {
	r, st := rep.Reservation, rep.Status
	out := openapi.ScalingReport{
		Id: r.ID, Tenant: r.Tenant, Actuator: openapi.ScalingReportActuator(r.Model.Acts()), Paused: r.Model.Scaling != nil && r.Model.Scaling.Paused,
		Min: r.Model.Replicas.Min, Max: r.Model.Replicas.Max, Wanted: st.Asked, Running: st.Wanted, Funded: r.Funded, Ready: st.Ready, Asleep: some(st.Sleeping()),
		Items: []openapi.ScalingDecision{}, Note: some(noteOf(rep)),
	}
	if rep.Latest != nil {
		latest := decisionWire(*rep.Latest)
		out.Latest = &latest
	}
	for _, step := range slices.Backward(rep.Steps) {
		out.Items = append(out.Items, stepWire(step))
	}
	return out
}

// noteOf says why nothing changes, where nothing can, and otherwise what is
// unwise about the policy.
func noteOf(rep scaler.Report) string {
	r := rep.Reservation
	switch {
	case rep.Note != "":
		return rep.Note
	case r.State.Final():
		return fmt.Sprintf("the request is %s", r.State)
	case !r.Model.Elastic():
		return fmt.Sprintf("replicas.min and replicas.max are both %d: the number of replicas cannot change by itself", r.Model.Replicas.Min)
	case !rep.Status.Exists:
		return "nothing was delivered yet"
	case r.Model.Scaling != nil && r.Model.Scaling.Paused:
		return "scaling is paused: the number of replicas stays as it is"
	}
	return elastic.Warning(r.Model.Class, elastic.SpecOf(r.Model, 0, 0))
}

func decisionWire(d elastic.Decision) openapi.ScalingDecision {
	out := openapi.ScalingDecision{
		At: wire(d.At), From: d.From, To: d.Replicas, Reason: d.Reason, Message: some(d.Message),
		LimitedBy: list(d.LimitedBy), Missing: list(d.Missing),
	}
	var inputs []openapi.ScalingInput
	for _, in := range d.Inputs {
		inputs = append(inputs, openapi.ScalingInput{Metric: in.Metric, Value: in.Value, Target: in.Target, Proposal: in.Proposal})
	}
	if len(inputs) > 0 {
		out.Inputs = &inputs
	}
	return out
}

func stepWire(s delivery.ScalingStep) openapi.ScalingDecision {
	d := elastic.Decision{At: s.At, From: s.From, Replicas: s.To, Reason: s.Reason, Message: s.Message, LimitedBy: s.LimitedBy}
	for _, in := range s.Inputs {
		d.Inputs = append(d.Inputs, elastic.Input(in))
	}
	return decisionWire(d)
}
