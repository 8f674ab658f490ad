package api

import (
	"testing"

	"modeldock.io/internal/api/openapi"
)

func TestLimitsAreReplacedAndShown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	all := `{"requestsPerMinute":60,"tokensPerMinute":1000,"concurrency":2,"tokensPerDay":9000,"perKey":{"concurrency":1},"windowSeconds":10,"maxPriority":0,"maxClass":"batch"}`
	got := read[openapi.Tenant](b.ask(b.admin, "PUT", "/tenants/team-a/limits", all), 200)
	if l := got.Limits; value(l.RequestsPerMinute, 0) != 60 || value(l.TokensPerDay, 0) != 9000 || value(l.PerKey.Concurrency, 0) != 1 || l.MaxPriority == nil || *l.MaxPriority != 0 || value(l.MaxClass, "") != "batch" {
		t.Errorf("limits are %+v", l)
	}
	b.ask(b.admin, "PUT", "/tenants/team-a/limits", `{"concurrency":3}`).is(200)
	if l := read[openapi.Tenant](b.ask(b.a, "GET", "/tenants/team-a", ""), 200).Limits; value(l.Concurrency, 0) != 3 || l.RequestsPerMinute != nil || l.PerKey != nil {
		t.Errorf("after a second PUT they are %+v", l)
	}
	for body, field := range map[string]string{
		`{"requestsPerMinute":0}`: "requestsPerMinute", `{"tokensPerDay":-1}`: "tokensPerDay", `{"perKey":{"concurrency":0}}`: "perKey.concurrency",
		`{"windowSeconds":61}`: "windowSeconds", `{"maxPriority":101}`: "maxPriority", `{"maxClass":"first"}`: "maxClass", `{"rpm":5}`: "rpm",
	} {
		if e := b.ask(b.admin, "PUT", "/tenants/team-a/limits", body).fails(400, "invalid_request"); value(e.Field, "") != field {
			t.Errorf("%s: field %q, want %q (%s)", body, value(e.Field, ""), field, e.Message)
		}
	}
	b.ask(b.a, "PUT", "/tenants/team-a/limits", `{}`).fails(403, "forbidden")
}

func TestPriorityAboveTheTenantsIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.ask(b.a, "POST", "/requests", `{"id":"early","cost":1,"priority":60}`).is(202)
	b.ask(b.admin, "PUT", "/tenants/team-a/limits", `{"maxPriority":50}`).is(200)
	if e := b.ask(b.a, "POST", "/requests", `{"id":"high","cost":1,"priority":51}`).fails(403, "priority_not_allowed"); value(e.Field, "") != "priority" {
		t.Errorf("field %q", value(e.Field, ""))
	}
	b.ask(b.a, "POST", "/requests", `{"id":"even","cost":1,"priority":50}`).is(202)
	b.ask(b.b, "POST", "/requests", `{"id":"high","cost":1,"priority":51}`).is(202)
	// What was accepted before stays the same answer.
	b.ask(b.a, "POST", "/requests", `{"id":"early","cost":1,"priority":60}`).is(202)
}

func TestCacheIsASetting(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := read[openapi.Request](b.ask(b.a, "POST", "/requests", `{"id":"one","cost":1,"priority":1,"model":{"cache":{"enabled":true}}}`), 202)
	if c := r.Model.Cache; !*c.Enabled || value(c.TtlSeconds, 0) != 300 {
		t.Errorf("cache is %+v", c)
	}
	same := `{"id":"one","cost":1,"priority":1,"model":{"cache":{"enabled":true,"ttlSeconds":300}}}`
	if r := read[openapi.Request](b.ask(b.a, "POST", "/requests", same), 202); r.Submits != 2 {
		t.Errorf("writing the default out was another request")
	}
	b.ask(b.a, "POST", "/requests", `{"id":"two","cost":1,"priority":1,"model":{"cache":{"enabled":true,"ttlSeconds":0}}}`).fails(400, "invalid_request")
	r = read[openapi.Request](b.ask(b.a, "PATCH", "/requests/one", `{"generation":1,"cache":{"ttlSeconds":5}}`), 200)
	if c := r.Model.Cache; r.Generation != 2 || !*c.Enabled || value(c.TtlSeconds, 0) != 5 {
		t.Errorf("patched cache is %+v in generation %d", c, r.Generation)
	}
	b.ask(b.a, "PATCH", "/requests/one", `{"generation":2,"cache":{"enabled":false}}`).is(200)
}
