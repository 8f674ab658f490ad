package api

import (
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/elastic"
	"modeldock.io/internal/elastic/scaler"
)

// TestScalingReport: the latest decision with its figures, the changes newest
// first, and why nothing changes where nothing can; for nobody else's eyes.
func TestScalingReport(t *testing.T) {
	t.Parallel()
	value := 3.5
	scaling := &fakeScaling{}
	b := setup(t, func(c *Config) { scaling.ledger, c.Scaling = c.Ledger, scaling })
	b.submit(b.a, "fixed")
	b.admit()
	fixed := read[openapi.ScalingReport](b.ask(b.a, "GET", "/requests/fixed/scaling", ""), 200)
	if fixed.Latest != nil || fixed.Asleep != nil || len(fixed.Items) != 0 || fixed.Note == nil || !strings.Contains(*fixed.Note, "both 1") {
		t.Errorf("a count that cannot change: %+v", fixed)
	}
	b.ask(b.a, "POST", "/requests", `{"id":"one","cost":1,"priority":50,"model":{"replicas":{"min":0,"max":3},"scaling":{"actuator":"none"}}}`).is(202)
	b.admit()
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	scaling.report = func(rep *scaler.Report) {
		rep.Status = delivery.Status{Exists: true, Asked: 2, Wanted: 1, Ready: 1, Replicas: []delivery.Replica{{Phase: delivery.PhaseReady}, {Phase: delivery.PhaseAsleep}}}
		rep.Steps = []delivery.ScalingStep{{At: at, From: 1, To: 0, Reason: "Idle"}, {At: at.Add(time.Minute), From: 0, To: 2, Reason: "Activated", Inputs: []delivery.ScalingInput{{Metric: "m", Value: &value, Target: 2, Proposal: 2}}}}
		rep.Latest = &elastic.Decision{At: at, From: 2, Replicas: 3, Reason: elastic.ReasonBudget, Message: "tenant team-a holds 2 of 2 slots", LimitedBy: []string{elastic.ReasonBudget},
			Missing: []string{"kv"}, Inputs: []elastic.Input{{Metric: "kv", Target: 80}, {Metric: "m", Value: &value, Target: 2, Proposal: 3}}}
	}
	r := read[openapi.ScalingReport](b.ask(b.a, "GET", "/requests/one/scaling", ""), 200)
	if r.Actuator != "none" || r.Wanted != 2 || r.Running != 1 || r.Funded != 1 || r.Min != 0 || r.Max != 3 || r.Note != nil || r.Asleep == nil || *r.Asleep != 1 {
		t.Errorf("the counts: %+v", r)
	}
	if len(r.Items) != 2 || r.Items[0].Reason != "Activated" || *(*r.Items[0].Inputs)[0].Value != value {
		t.Errorf("the changes: %+v", r.Items)
	}
	if l := r.Latest; l == nil || l.To != 3 || (*l.Missing)[0] != "kv" || (*l.Inputs)[0].Value != nil || *(*l.Inputs)[1].Value != value {
		t.Errorf("the latest decision: %+v", r.Latest)
	}
	b.ask(b.a, "POST", "/requests", `{"id":"raw","cost":1,"priority":50,"model":{"replicas":{"min":1,"max":3},"scaling":{"targets":{"gpuMemoryPercent":80}}}}`).is(202)
	b.admit()
	if raw := read[openapi.ScalingReport](b.ask(b.a, "GET", "/requests/raw/scaling", ""), 200); raw.Note == nil || !strings.Contains(*raw.Note, "preallocate") {
		t.Errorf("nothing warns of a policy that holds every replica: %+v", raw)
	}
	b.ask(b.b, "GET", "/requests/one/scaling", "").fails(404, "not_found")
	b.ask(b.admin, "GET", "/requests/one/scaling", "").fails(400, "invalid_request")
	b.ask(b.admin, "GET", "/requests/one/scaling?tenant=team-a", "").is(200)
}
