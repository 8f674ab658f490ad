package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/api/wiretime"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/modelspec"
	"modeldock.io/internal/traffic"
)

// story fills a server with one request in every state and something to show
// in every list.
func story(b *bundle) {
	b.Helper()
	b.submit(b.a, "one")
	b.submit(b.a, "two")
	b.submit(b.a, "three") // blocked by quota
	b.admit()
	b.bind()
	one := budget.Ref{Tenant: "team-a", ID: "one"}
	b.ok(b.ledger.MarkReady(b.Context(), one, "uid-team-a-one"))
	b.target.observe = func(ref budget.Ref) (delivery.Status, error) {
		if ref != one {
			return delivery.Status{Ref: ref}, nil
		}
		return delivery.Status{
			Ref: ref, Exists: true, Wanted: 1, Ready: 1, Reason: delivery.Available, Message: "1 of 1 replicas is ready",
			Object:   budget.Object{Name: delivery.ObjectName(ref), UID: "uid-team-a-one"},
			Replicas: []delivery.Replica{{UID: "p1", Phase: delivery.PhaseReady, Cards: []delivery.Card{{UUID: "c0"}}, StartedAt: b.now()}},
		}, nil
	}
	b.load.endpoints = []traffic.Endpoint{{UID: "p1", Owner: "team-a", Model: "one", RequestID: "one", Address: "127.0.0.1:9", Node: "n1"}}
	now := b.now()
	b.ok(b.ledger.PutInferences(b.Context(), []traffic.Inference{{
		RequestID: "i1", Tenant: "team-a", KeyID: "k", Owner: "team-a", Model: "one", Version: "v1", ReservationID: "one", Path: "/v1/chat/completions",
		Status: 200, Outcome: traffic.Completed, ReceivedAt: now, SentAt: now, FirstByteAt: now, FirstContentAt: now, DoneAt: now, CompletionTokens: 3,
	}}))
	_, granted := b.ledger.PutGrant(b.Context(), budget.Grant{Owner: "team-a", Model: "one", Grantee: "team-b", At: now}, false)
	b.ok(granted)
	b.fleet.nodes = func() ([]openapi.Node, error) {
		return []openapi.Node{{Node: "n1", Simulated: true, LargestFragmentMiB: 1, Cards: []openapi.Card{{
			Uuid: "c0", Model: "simulated", Simulated: true, TotalMiB: 24576, AllocatedMiB: 4096, Healthy: true, Isolation: openapi.CardIsolationNone,
			Allocations: []openapi.Allocation{{Uid: "p1", Tenant: "team-a", RequestId: "one", Mib: 4096}, {Uid: "p2", Tenant: "team-b", RequestId: "x", Mib: 1}},
		}}}}, nil
	}
}

func manual(c *Config) {
	c.Stepper = stepperFunc(func(string, int, string) ([]openapi.StepDone, error) { return nil, nil })
	c.Diagnostics = func(context.Context) []openapi.DiagnosticPart {
		return []openapi.DiagnosticPart{{Name: "ledger", Status: openapi.DiagnosticPartStatusOk, Since: wiretime.Time{}}}
	}
}

// call is a right use of one route.
type call struct {
	method, route, path, body string
	status                    int
}

func calls() []call {
	return []call{
		{"GET", "/requests", "/requests?limit=2", "", 200},
		{"POST", "/requests", "/requests", `{"id":"four","cost":1,"priority":1,"tenant":"team-b"}`, 202},
		{"GET", "/requests/{id}", "/requests/one?tenant=team-a", "", 200},
		{"GET", "/requests/{id}", "/requests/three?tenant=team-a", "", 200},
		{"PATCH", "/requests/{id}", "/requests/one?tenant=team-a", `{"generation":1,"traffic":{"weight":50}}`, 200},
		{"GET", "/requests/{id}/evidence", "/requests/one/evidence?tenant=team-a", "", 200},
		{"GET", "/requests/{id}/evidence", "/requests/three/evidence?tenant=team-a", "", 200},
		{"GET", "/requests/{id}/journal", "/requests/one/journal?tenant=team-a", "", 200},
		{"GET", "/requests/{id}/logs", "/requests/one/logs?tenant=team-a&tail=5", "", 200},
		{"GET", "/requests/{id}/scaling", "/requests/one/scaling?tenant=team-a", "", 200},
		{"GET", "/traces/{requestId}", "/traces/i1", "", 200},
		{"GET", "/tenants", "/tenants", "", 200},
		{"GET", "/tenants/{tenant}", "/tenants/team-a", "", 200},
		{"PUT", "/tenants/{tenant}/quota", "/tenants/team-a/quota", `{"cap":2}`, 200},
		{"PUT", "/tenants/{tenant}/limits", "/tenants/team-a/limits", `{}`, 200},
		{"PUT", "/tenants/{tenant}/engines", "/tenants/team-a/engines", `{"allow":["ollama"]}`, 200},
		{"PUT", "/tenants/{tenant}/pools", "/tenants/team-a/pools", `{"allow":[]}`, 200},
		{"GET", "/pools", "/pools", "", 200},
		{"GET", "/usage", "/usage?hours=2", "", 200},
		{"PUT", "/pools/{pool}", "/pools/default", `{"cap":8}`, 200},
		{"GET", "/warmpools", "/warmpools", "", 200},
		{"PUT", "/warmpools/{pool}", "/warmpools/default", `{"gpuHoursPerDay":1,"classes":[{"class":"llm","hot":1}]}`, 200},
		{"GET", "/keys", "/keys", "", 200},
		{"POST", "/keys", "/keys", `{"role":"viewer","expiresInSeconds":60}`, 201},
		{"DELETE", "/keys/{keyId}", "/keys/nobody", "", 404},
		{"GET", "/audit", "/audit?tenant=team-a&actor=admin&limit=2", "", 200},
		{"GET", "/grants", "/grants", "", 200},
		{"PUT", "/grants/{owner}/{model}/{grantee}", "/grants/team-b/m/team-a", "", 200},
		{"DELETE", "/grants/{owner}/{model}/{grantee}", "/grants/team-b/m/team-a", "", 204},
		{"GET", "/models", "/models", "", 200},
		{"GET", "/models/{owner}/{name}", "/models/team-a/one", "", 200},
		{"GET", "/nodes", "/nodes", "", 200},
		{"POST", "/nodes/fit", "/nodes/fit", `{"gpuMemoryMiB":4096,"gpus":1}`, 200},
		{"GET", "/ledger/verify", "/ledger/verify", "", 200},
		{"GET", "/ledger/export", "/ledger/export", "", 200},
		{"POST", "/ledger/import", "/ledger/import", `{"acceptOlder":true}`, 200},
		{"POST", "/simulate", "/simulate", `{"trace":"timestamp_ms,input_length,output_length\n0,10,10\n500,10,10\n"}`, 200},
		{"POST", "/step", "/step", `{"what":"admit"}`, 200},
		{"GET", "/session", "/session", "", 401},
		{"POST", "/session", "/session", `{"key":"mdk_x"}`, 401},
		{"DELETE", "/session", "/session", "", 204},
		{"GET", "/diagnostics", "/diagnostics", "", 200},
		{"POST", "/requests/{id}/release", "/requests/two/release?tenant=team-a", `{"why":"done"}`, 202},
		{"DELETE", "/requests/{id}", "/requests/three?tenant=team-a", "", 202},
	}
}

func TestEveryRouteAnswersAsDescribed(t *testing.T) {
	t.Parallel()
	d := readDescription(t)
	b := setup(t, manual)
	story(b)
	tried := map[string]bool{"GET /events": true} // see the tests of events
	for _, c := range calls() {
		tried[c.method+" "+c.route] = true
		a := b.ask(b.admin, c.method, c.path, c.body).is(c.status)
		d.conforms(a, c.method, c.route)
	}
	for route, methods := range d["paths"].(map[string]any) {
		for method := range methods.(map[string]any) {
			if name := strings.ToUpper(method) + " " + route; method != "parameters" && !tried[name] {
				t.Errorf("%s is described and not tried here", name)
			}
		}
	}
}

// Without a credential every route but the sign-in answers 401, whatever it
// would have done.
func TestEveryRouteNeedsACredential(t *testing.T) {
	t.Parallel()
	b := setup(t, manual)
	for _, c := range append(calls(), call{"GET", "/events", "/events", "", 0}) {
		if c.method+c.route == "POST/session" {
			continue
		}
		a := b.ask("", c.method, c.path, c.body)
		a.fails(401, "unauthorised")
		if !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%s: no WWW-Authenticate", a.what)
		}
	}
}

// Who may do what beyond reading: a viewer changes nothing, a tenant nothing
// that is not its own.
func TestRoles(t *testing.T) {
	t.Parallel()
	b := setup(t, manual)
	story(b)
	adminOnly := []string{
		"PUT /tenants/{tenant}/quota", "PUT /tenants/{tenant}/limits", "PUT /tenants/{tenant}/engines", "PUT /tenants/{tenant}/pools",
		"PUT /pools/{pool}", "PUT /warmpools/{pool}", "GET /keys", "POST /keys", "DELETE /keys/{keyId}",
		"GET /ledger/verify", "GET /ledger/export", "POST /ledger/import", "POST /step",
	}
	notViewer := []string{
		"POST /requests", "DELETE /requests/{id}", "POST /requests/{id}/release",
		"PUT /grants/{owner}/{model}/{grantee}", "DELETE /grants/{owner}/{model}/{grantee}",
	}
	for _, c := range calls() {
		name := c.method + " " + c.route
		if slices.Contains(adminOnly, name) {
			b.ask(b.viewer, c.method, c.path, c.body).fails(403, "forbidden")
			b.ask(b.a, c.method, c.path, c.body).fails(403, "forbidden")
		} else if slices.Contains(notViewer, name) {
			b.ask(b.viewer, c.method, c.path, c.body).fails(403, "forbidden")
		}
	}
	b.ask(b.a, "GET", "/diagnostics", "").fails(403, "forbidden")
	b.ask(b.viewer, "GET", "/diagnostics", "").is(200)
	b.ask(b.a, "GET", "/warmpools", "").fails(403, "forbidden")
	b.ask(b.viewer, "GET", "/warmpools", "").is(200)
	// Grants belong to the owner of the model.
	b.ask(b.b, "PUT", "/grants/team-a/one/team-b", "").fails(403, "forbidden")
	b.ask(b.a, "PUT", "/grants/team-a/one/team-c", "").is(200)
	b.ask(b.b, "DELETE", "/grants/team-a/one/team-c", "").fails(403, "forbidden")
	b.ask(b.viewer, "DELETE", "/grants/team-a/one/team-b", "").fails(403, "forbidden")
	// But whoever was given one need not have it.
	b.ask(b.b, "DELETE", "/grants/team-a/one/team-b", "").is(204)
	if list := read[openapi.GrantList](b.ask(b.b, "GET", "/grants", ""), 200); len(list.Items) != 0 {
		t.Errorf("team-b still has %+v", list.Items)
	}
	// Nor does it have it again against its will.
	if e := b.ask(b.a, "PUT", "/grants/team-a/one/team-b", "").fails(409, "conflict"); !strings.Contains(e.Message, "tenant team-b declined the grant of team-a/one on ") {
		t.Errorf("told %q", e.Message)
	}
	b.ask(b.admin, "PUT", "/grants/team-a/one/team-b", "").is(200)
	b.ask(b.admin, "DELETE", "/grants/team-a/one/team-b", "").is(204)
	b.ask(b.a, "PUT", "/grants/team-a/one/team-b", "").is(200)
	// Nothing of team-a was changed by the refused calls.
	if k := read[openapi.Tenant](b.ask(b.admin, "GET", "/tenants/team-a", ""), 200); k.Cap != 2 || len(k.Engines) > 0 {
		t.Errorf("team-a was changed: %+v", k)
	}
	if r := read[openapi.Request](b.ask(b.a, "GET", "/requests/two", ""), 200); r.ReleaseRequestedAt != nil {
		t.Error("a viewer released a request")
	}
}

func TestTenantsSeeOnlyTheirOwn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	story(b)
	for _, path := range []string{"/requests/one", "/requests/one/evidence", "/requests/one/journal", "/requests/one/logs", "/requests/one?tenant=team-a", "/tenants/team-a"} {
		b.ask(b.b, "GET", path, "").fails(404, "not_found")
	}
	b.ask(b.b, "POST", "/requests/one/release", "").fails(404, "not_found")
	b.ask(b.b, "GET", "/requests?tenant=team-a", "").fails(403, "forbidden")
	if l := read[openapi.RequestList](b.ask(b.b, "GET", "/requests", ""), 200); len(l.Items) != 0 {
		t.Errorf("team-b sees %d requests", len(l.Items))
	}
	if l := read[openapi.TenantList](b.ask(b.b, "GET", "/tenants", ""), 200); len(l.Items) != 1 || l.Items[0].Tenant != "team-b" {
		t.Errorf("team-b sees tenants %v", l.Items)
	}
	// A call is shown to its caller and to the model's owner only.
	b.ask(b.a, "GET", "/traces/i1", "").is(200)
	b.ask(b.b, "GET", "/traces/i1", "").fails(404, "not_found")
	// A granted model is seen; another's allocations have no names.
	if l := read[openapi.ModelList](b.ask(b.b, "GET", "/models", ""), 200); len(l.Items) != 1 || l.Items[0].Name != "one" {
		t.Errorf("team-b sees models %+v, want only the granted one", l.Items)
	}
	b.ask(b.b, "GET", "/models/team-a/two", "").fails(404, "not_found")
	nodes := read[openapi.NodeList](b.ask(b.a, "GET", "/nodes", ""), 200)
	if al := nodes.Items[0].Cards[0].Allocations; al[0].Tenant != "team-a" || al[1].Tenant != "" || al[1].RequestId != "" || al[1].Mib != 1 {
		t.Errorf("allocations as team-a sees them: %+v", al)
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, path := range []string{"/nowhere", "/requests/one/nowhere", "/requests/", "/"} {
		b.ask(b.admin, "GET", path, "").fails(404, "not_found")
	}
	a := b.ask(b.admin, "PUT", "/requests", "{}")
	a.fails(405, "method_not_allowed")
	for _, m := range []string{"GET", "POST"} {
		if !strings.Contains(a.header.Get("Allow"), m) {
			t.Errorf("Allow is %q, want %s in it", a.header.Get("Allow"), m)
		}
	}
}

func TestBodies(t *testing.T) {
	t.Parallel()
	b := setup(t)
	big := `{"id":"big","cost":1,"priority":1,"model":{"source":"` + strings.Repeat("x", MaxBody) + `"}}`
	b.ask(b.a, "POST", "/requests", big).fails(413, "body_too_large")
	r := b.request("POST", "/requests", "")
	r.Header.Set("Authorization", "Bearer "+b.a)
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(big)), -1 // its size is not announced
	b.do(r).fails(413, "body_too_large")
	ledger := b.request("POST", "/ledger/import", "")
	ledger.Header.Set("Authorization", "Bearer "+b.admin)
	ledger.Body, ledger.ContentLength = io.NopCloser(strings.NewReader("{")), MaxImport+1
	ledger.Header.Set("Expect", "100-continue") // refused before anything is sent
	b.do(ledger).fails(413, "body_too_large")
	for body, field := range map[string]string{
		``: "", `[]`: "", `{`: "", `{"id":"x","id":"y","cost":1,"priority":1}`: "id", `{"id":"x","cost":"1","priority":1}`: "cost",
		`{"id":"x","cost":1.5,"priority":1}`: "cost", `{"id":"x","cost":1,"priority":1,"colour":1}`: "colour", `{"id":"x","priority":1}`: "cost",
		`{"id":"-x","cost":1,"priority":1}`: "id", `{"id":"x","cost":0,"priority":1}`: "cost", `{"id":"x","cost":1,"priority":101}`: "priority",
		`{"id":"x","cost":1,"priority":1,"ttlSeconds":0}`:                                        "ttlSeconds",
		`{"id":"x","cost":1,"priority":1,"ttlSeconds":9223372036854775807}`:                      "ttlSeconds",
		`{"id":"x","cost":1,"priority":1,"pool":"nowhere"}`:                                      "pool",
		`{"id":"x","cost":1,"priority":1,"model":{"replicas":{"min":2,"max":1}}}`:                "model.replicas.max",
		`{"id":"x","cost":1,"priority":1,"model":{"gpuMemoryMiB":0}}`:                            "model.gpuMemoryMiB",
		`{"id":"x","cost":1,"priority":1,"model":{"engine":"magic"}}`:                            "model.engine",
		`{"id":"x","cost":1,"priority":1,"model":{"engine":"custom"}}`:                           "model.command",
		`{"id":"x","cost":1,"priority":1,"model":{"healthPath":"/a b"}}`:                         "model.healthPath",
		`{"id":"x","cost":1,"priority":1,"model":{"env":{"1A":"x"}}}`:                            "model.env",
		`{"id":"x","cost":1,"priority":1,"model":{"traffic":{"weight":1001}}}`:                   "model.traffic.weight",
		`{"id":"x","cost":1,"priority":1,"model":{"coldStart":{"timeoutSeconds":120,"x":true}}}`: "model.coldStart.x",
	} {
		a := b.ask(b.a, "POST", "/requests", body)
		status, code := 400, "invalid_request"
		if field == "pool" { // it was not given to the tenant
			status, code = 403, "pool_not_allowed"
		}
		e := a.fails(status, code)
		if got := value(e.Field, ""); got != field {
			t.Errorf("%s: field %q, want %q (%s)", body, got, field, e.Message)
		}
	}
	if l := read[openapi.RequestList](b.ask(b.a, "GET", "/requests", ""), 200); len(l.Items) != 0 {
		t.Errorf("%d requests were stored", len(l.Items))
	}
	for body, field := range map[string]string{
		`{"coldStart":{"maxWaiting":-1}}`: "model.coldStart.maxWaiting", `{"coldStart":{"timeoutSeconds":3601}}`: "model.coldStart.timeoutSeconds",
	} {
		e := b.ask(b.a, "POST", "/requests", `{"id":"x","cost":1,"priority":1,"model":`+body+`}`).fails(400, "invalid_request")
		if value(e.Field, "") != field {
			t.Errorf("%s: field %q, want %q", body, value(e.Field, ""), field)
		}
	}
}

func TestPanicsBecomeJSON(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fleet.nodes = func() ([]openapi.Node, error) { panic("a bug with a secret") }
	e := b.ask(b.admin, "GET", "/nodes", "").fails(500, "internal")
	if strings.Contains(e.Message, "secret") {
		t.Errorf("the message tells internals: %s", e.Message)
	}
	b.fleet.nodes = func() ([]openapi.Node, error) { return nil, errors.New("a driver with a secret") }
	if e := b.ask(b.admin, "GET", "/nodes", "").fails(500, "internal"); strings.Contains(e.Message, "secret") {
		t.Errorf("the message tells internals: %s", e.Message)
	}
}

type panicking struct{ io.Reader }

func (p panicking) Read(buf []byte) (int, error) {
	if n, err := p.Reader.Read(buf); err == nil {
		return n, nil
	}
	panic("in the middle")
}

func (panicking) Close() error { return nil }

// A panic in the middle of an answer cuts it: an error document at the end of
// a log would look like the log's last line.
func TestPanicInTheMiddleCutsTheAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	story(b)
	b.target.logs = func(context.Context, string, int, bool) (io.ReadCloser, error) {
		return panicking{strings.NewReader("first line\n")}, nil
	}
	r := b.request("GET", "/requests/one/logs", "")
	r.Header.Set("Authorization", "Bearer "+b.a)
	resp, err := http.DefaultClient.Do(r)
	b.ok(err)
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err == nil || string(data) != "first line\n" {
		t.Errorf("read %q with error %v, want the first line and a broken transfer", data, err)
	}
}

func TestLogs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	story(b)
	var tail int
	var replica string
	b.target.logs = func(_ context.Context, r string, n int, _ bool) (io.ReadCloser, error) {
		replica, tail = r, n
		return io.NopCloser(strings.NewReader("hello\n")), nil
	}
	a := b.ask(b.a, "GET", "/requests/one/logs?tail=7&replica=r-0", "").is(200)
	if string(a.body) != "hello\n" || tail != 7 || replica != "r-0" || a.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("log %q, tail %d, replica %q, header %v", a.body, tail, replica, a.header)
	}
	// explain and trace tell a replica's UID.
	b.target.observe = func(ref budget.Ref) (delivery.Status, error) {
		return delivery.Status{Ref: ref, Replicas: []delivery.Replica{{Name: "md-one-0", UID: "u0"}, {Name: "md-one-1", UID: "u1"}}}, nil
	}
	if b.ask(b.a, "GET", "/requests/one/logs?replica=u1", "").is(200); replica != "md-one-1" {
		t.Errorf("the UID u1 became replica %q", replica)
	}
	for _, bad := range []string{"-1", "10001", "x"} {
		b.ask(b.a, "GET", "/requests/one/logs?tail="+bad, "").fails(400, "invalid_request")
	}
	b.target.logs = func(context.Context, string, int, bool) (io.ReadCloser, error) {
		return nil, errors.Join(errors.New("logs of replica r-9"), budget.ErrNotFound)
	}
	if e := b.ask(b.a, "GET", "/requests/one/logs", "").fails(404, "not_found"); !strings.Contains(e.Message, "replica r-9") {
		t.Errorf("message %q does not say what is missing", e.Message)
	}
}

func TestStep(t *testing.T) {
	t.Parallel()
	plain := setup(t)
	plain.ask(plain.admin, "POST", "/step", `{"what":"admit"}`).fails(409, "not_manual")
	var got []any
	b := setup(t, func(c *Config) {
		c.Stepper = stepperFunc(func(what string, count int, crash string) ([]openapi.StepDone, error) {
			got = []any{what, count, crash}
			return []openapi.StepDone{{Tenant: "team-a", Id: "one", Did: "applied"}}, nil
		})
	})
	for _, bad := range []string{`{"what":"dance"}`, `{"what":"admit","count":0}`, `{"what":"admit","count":1001}`, `{"what":"admit","crashBefore":"lunch"}`, `{}`} {
		b.ask(b.admin, "POST", "/step", bad).fails(400, "invalid_request")
	}
	res := read[openapi.StepResult](b.ask(b.admin, "POST", "/step", `{"what":"deliver","count":3,"crashBefore":"ack"}`), 200)
	if !slices.Equal(got, []any{"deliver", 3, "ack"}) || len(res.Done) != 1 || res.What != "deliver" {
		t.Errorf("stepped %v, answered %+v", got, res)
	}
}

// Every outcome that traffic records has its place in the description.
func TestOutcomesAreDescribed(t *testing.T) {
	t.Parallel()
	for _, o := range []traffic.Outcome{
		traffic.Completed, traffic.ClientCancelled, traffic.UpstreamCut, traffic.UpstreamError, traffic.RejectedLimit,
		traffic.RejectedFull, traffic.ExpiredWaiting, traffic.NotFound, traffic.Forbidden,
	} {
		if !openapi.TraceOutcome(o).Valid() {
			t.Errorf("outcome %s is not described", o)
		}
	}
	for _, e := range modelspec.Engines() {
		if !openapi.ModelEngine(e).Valid() {
			t.Errorf("engine %s is not described", e)
		}
	}
}

// A process without a gateway of its own has the stored records.
func TestTraceWithoutAGateway(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Recent = nil })
	b.ask(b.a, "GET", "/traces/unknown", "").fails(404, "not_found")
	b.ok(b.ledger.PutInferences(t.Context(), []traffic.Inference{{RequestID: "i1", Tenant: "team-a", Model: "demo", Path: "/v1/chat/completions", Outcome: traffic.Completed, ReceivedAt: b.now()}}))
	b.ask(b.a, "GET", "/traces/i1", "").is(200)
}

// Who calls another owner's model sees its own call, and not which request of
// the owner's it was and where that runs.
func TestTraceOfAnothersModel(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Recent = nil })
	b.ok(b.ledger.PutInferences(t.Context(), []traffic.Inference{{
		RequestID: "i1", Tenant: "team-b", Owner: "team-a", Model: "demo", ReservationID: "rq-1", EndpointUID: "pod-1", ObjectUID: "object-1",
		Path: "/v1/chat/completions", Outcome: traffic.Completed, ReceivedAt: b.now(),
	}}))
	for who, c := range map[string]struct {
		key  string
		sees bool
	}{"the caller": {b.b, false}, "the owner": {b.a, true}, "an admin": {b.admin, true}} {
		got := read[openapi.Trace](b.ask(c.key, "GET", "/traces/i1", ""), 200)
		if sees := got.Reservation != nil || got.EndpointUid != nil || got.ObjectUid != nil; sees != c.sees || got.Model != "demo" {
			t.Errorf("%s sees %+v", who, got)
		}
	}
}
