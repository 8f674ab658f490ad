package api

import (
	"strings"
	"testing"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
)

func TestPatchMergesIntoWhatIsThere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit(b.a, "one")
	patch := func(body string) openapi.Request {
		t.Helper()
		return read[openapi.Request](b.ask(b.a, "PATCH", "/requests/one", body), 200)
	}
	r := patch(`{"generation":1,"replicas":{"max":3}}`)
	if r.Generation != 2 || *r.Model.Replicas.Min != 1 || *r.Model.Replicas.Max != 3 || *r.Model.Traffic.Weight != 100 || r.State != "waiting" || r.FundedReplicas != 0 {
		t.Errorf("record %+v of %+v", r, *r.Model.Replicas)
	}
	r = patch(`{"generation":2,"traffic":{"weight":0},"cache":{"enabled":false},"coldStart":{"timeoutSeconds":9}}`)
	if r.Generation != 3 || *r.Model.Traffic.Weight != 0 || *r.Model.Replicas.Max != 3 || *r.Model.ColdStart.MaxWaiting != 1000 || *r.Model.ColdStart.TimeoutSeconds != 9 {
		t.Errorf("record %+v", r)
	}
	for _, same := range []string{`{"generation":3}`, `{"generation":3,"traffic":{}}`, `{"generation":3,"replicas":{}}`, `{"generation":3,"replicas":{"min":1}}`} {
		if r = patch(same); r.Generation != 3 || *r.Model.Traffic.Weight != 0 || *r.Model.Replicas.Max != 3 {
			t.Errorf("%s: generation %d, %+v", same, r.Generation, r.Model)
		}
	}
	b.admit()
	b.bind()
	// A max that is left out follows.
	r = patch(`{"generation":3,"replicas":{"min":0}}`)
	if *r.Model.Replicas.Max != 3 || r.FundedReplicas != 1 {
		t.Errorf("record %+v of %+v", r, *r.Model.Replicas)
	}
	// The same first submit is still the same.
	if r = b.submit(b.a, "one"); r.Generation != 4 || r.Submits != 2 {
		t.Errorf("record %+v", r)
	}
}

func TestPatchFundsOrRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.ledger.SetQuota(t.Context(), "team-a", 2)
	b.ok(err)
	b.submit(b.a, "one")
	b.admit()
	b.bind()
	r := read[openapi.Request](b.ask(b.a, "PATCH", "/requests/one", `{"generation":1,"replicas":{"min":2}}`), 200)
	if r.Held != 2 || r.FundedReplicas != 2 || *r.Model.Replicas.Max != 2 || r.Cost != 1 {
		t.Errorf("record %+v", r)
	}
	e := b.ask(b.a, "PATCH", "/requests/one", `{"generation":2,"replicas":{"min":4}}`).fails(409, "budget_blocked")
	if value(e.Field, "") != "replicas.min" || !strings.Contains(e.Message, "2 more slots") || !strings.Contains(e.Message, "team-a holds 2 of 2") {
		t.Errorf("%s (field %s)", e.Message, value(e.Field, ""))
	}
	r = read[openapi.Request](b.ask(b.a, "GET", "/requests/one", ""), 200)
	if r.Generation != 2 || r.Held != 2 || *r.Model.Replicas.Min != 2 {
		t.Errorf("the refused patch left %+v", r)
	}
	r = read[openapi.Request](b.ask(b.a, "PATCH", "/requests/one", `{"generation":2,"replicas":{"min":1}}`), 200)
	if r.Held != 2 || r.FundedReplicas != 1 {
		t.Errorf("the slots came back before anything ended: %+v", r)
	}
	var told []string
	for _, a := range b.audits() {
		if strings.HasPrefix(a.What, "PATCH /requests/one ") {
			told = append(told, strings.TrimPrefix(a.What, "PATCH /requests/one ")+": "+a.Result)
		}
	}
	// What was refused changed nothing, and is not told.
	if len(told) != 2 || told[1] != "generation 1, replicas 2 to 2: ok" {
		t.Errorf("audit %q", told)
	}
}

func TestPatchRefusals(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit(b.a, "one")
	for body, field := range map[string]string{
		``: "", `[]`: "", `{}`: "generation", `{"generation":"1"}`: "generation", `{"generation":1.5}`: "generation", `{"generation":null}`: "generation",
		`{"generation":1,"generation":1}`: "generation", `{"generation":1,"Generation":1}`: "Generation",
		`{"generation":1,"cost":2}`: "cost", `{"generation":1,"model":{}}`: "model", `{"generation":1,"replicas":{"mid":1}}`: "replicas.mid",
		`{"generation":1,"replicas":{"min":1,"min":2}}`: "replicas.min", `{"generation":1,"replicas":{"min":-1}}`: "replicas.min",
		`{"generation":1,"replicas":{"min":3,"max":2}}`: "replicas.max", `{"generation":1,"replicas":{"max":0}}`: "replicas.max",
		`{"generation":1,"traffic":{"weight":1001}}`: "traffic.weight", `{"generation":1,"cache":{"enabled":true,"ttlSeconds":0}}`: "cache.ttlSeconds", `{"generation":1} {}`: "",
		`{"generation":1,"coldStart":{"maxWaiting":-1}}`: "coldStart.maxWaiting", `{"generation":1,"coldStart":{"timeoutSeconds":0}}`: "coldStart.timeoutSeconds",
		`{"generation":1,"scaling":{"actuator":"me"}}`: "scaling.actuator", `{"generation":1,"scaling":{"target":1}}`: "scaling.target",
		`{"generation":1,"scaling":{"behavior":{"scaleUp":{"policies":[{"type":"Pods","value":0,"periodSeconds":1}]}}}}`: "scaling.behavior.scaleUp.policies[0].value",
	} {
		e := b.ask(b.a, "PATCH", "/requests/one", body).fails(400, "invalid_request")
		if got := value(e.Field, ""); got != field || strings.Contains(e.Message, "model.") {
			t.Errorf("%s: field %q, want %q (%s)", body, got, field, e.Message)
		}
	}
	weigh := `{"generation":1,"traffic":{"weight":5}}`
	b.ask(b.b, "PATCH", "/requests/one", weigh).fails(404, "not_found")
	b.ask(b.viewer, "PATCH", "/requests/one?tenant=team-a", weigh).fails(403, "forbidden")
	b.ask(b.admin, "PATCH", "/requests/one", weigh).fails(400, "invalid_request")
	b.ask(b.admin, "PATCH", "/requests/one?tenant=team-a", weigh).is(200)
	e := b.ask(b.a, "PATCH", "/requests/one", weigh).fails(409, "stale_generation")
	if value(e.Field, "") != "generation" || !strings.Contains(e.Message, "generation 2") {
		t.Errorf("%s (field %s)", e.Message, value(e.Field, ""))
	}
	b.admit()
	b.ask(b.a, "POST", "/requests/one/release", "").is(202)
	b.ask(b.a, "PATCH", "/requests/one", `{"generation":2,"traffic":{"weight":6}}`).fails(409, "release_requested")
	b.submit(b.a, "two")
	b.ask(b.a, "DELETE", "/requests/two", "").is(202)
	b.ask(b.a, "PATCH", "/requests/two", `{"generation":9,"replicas":{"min":-1}}`).fails(409, "final_state")
}

// A change that is on its way, or that fails to get there, is shown.
func TestAChangeOnItsWayIsShown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit(b.a, "one")
	b.admit()
	b.bind()
	seen := int64(1)
	b.target.observe = func(ref budget.Ref) (delivery.Status, error) {
		return delivery.Status{Ref: ref, Exists: true, Generation: seen, Wanted: 1, Ready: 1, Reason: delivery.Available, Message: "1 of 1 replicas are ready"}, nil
	}
	r := read[openapi.Request](b.ask(b.a, "PATCH", "/requests/one", `{"generation":1,"traffic":{"weight":5}}`), 200)
	if value(r.Reason, "") != "Undelivered" || !strings.Contains(value(r.Message, ""), "generation 2 is being delivered") || r.ReadyReplicas != 1 {
		t.Errorf("%s: %s", value(r.Reason, ""), value(r.Message, ""))
	}
	rows, err := b.ledger.Claim(t.Context(), "relay", 1, 1e9)
	b.ok(err)
	b.ok(b.ledger.Defer(t.Context(), rows[0], "the target is away", 0))
	r = read[openapi.Request](b.ask(b.a, "GET", "/requests/one", ""), 200)
	if value(r.Reason, "") != "Undelivered" || !strings.Contains(value(r.Message, ""), "the target is away") {
		t.Errorf("%s: %s", value(r.Reason, ""), value(r.Message, ""))
	}
	b.bind()
	if r = read[openapi.Request](b.ask(b.a, "GET", "/requests/one", ""), 200); value(r.Reason, "") != "Available" {
		t.Errorf("%s: %s", value(r.Reason, ""), value(r.Message, ""))
	}
	seen = 2
	if r = read[openapi.Request](b.ask(b.a, "GET", "/requests/one", ""), 200); value(r.Reason, "") != "Available" {
		t.Errorf("%s: %s", value(r.Reason, ""), value(r.Message, ""))
	}
}
