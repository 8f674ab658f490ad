package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/api/wiretime"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
)

func TestSubmitFillsInDefaults(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.ask(b.a, "POST", "/requests", `{"id":"one","cost":1,"priority":50}`)
	r := read[openapi.Request](a, 202)
	if a.header.Get("Location") != "/requests/one" {
		t.Errorf("Location: %q", a.header.Get("Location"))
	}
	m := r.Model
	if r.State != "waiting" || r.Tenant != "team-a" || r.Pool != "default" || r.Submits != 1 || r.Revision != 1 || r.Generation != 1 ||
		*m.Name != "one" || *m.Version != "v1" || *m.Engine != "simulated" || *m.GpuMemoryMiB != 4096 || *m.Replicas.Min != 1 || *m.Traffic.Weight != 100 ||
		*m.ColdStart.TimeoutSeconds != 120 || *m.Cache.Enabled || time.Time(r.ExpiresAt).Sub(time.Time(r.CreatedAt)) != 24*time.Hour {
		t.Errorf("record: %s", a.body)
	}
	// Writing the defaults is the same request; changing one is another.
	same := `{"model":{"name":"one","version":"v1","class":"llm","workload":"online","engine":"simulated","gpuMemoryMiB":4096,"gpus":1,"replicas":{"min":1},
		"traffic":{"weight":100},"cache":{"enabled":false},"coldStart":{"timeoutSeconds":120,"maxWaiting":1000},"args":[],"env":{},"command":[]},
		"pool":"default","ttlSeconds":86400,"priority":50,"cost":1,"id":"one"}`
	if r := read[openapi.Request](b.ask(b.a, "POST", "/requests", same), 202); r.Submits != 2 {
		t.Errorf("the same request was counted %d times", r.Submits)
	}
	for field, body := range map[string]string{
		"cost": `{"id":"one","cost":2,"priority":50}`, "ttlSeconds": `{"id":"one","cost":1,"priority":50,"ttlSeconds":60}`,
		"model.gpuMemoryMiB": `{"id":"one","cost":1,"priority":50,"model":{"gpuMemoryMiB":1}}`,
	} {
		if e := b.ask(b.a, "POST", "/requests", body).fails(409, "conflict"); value(e.Field, "") != field {
			t.Errorf("field %q, want %q", value(e.Field, ""), field)
		}
	}
	b.ask(b.a, "POST", "/requests", `{"id":"two","cost":1,"priority":50,"model":{"name":"one"}}`).fails(409, "model_in_use")
	b.ask(b.b, "POST", "/requests", `{"id":"one","cost":2,"priority":50}`).is(202)
}

func TestWhoPays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	body := func(id, tenant string) string {
		return fmt.Sprintf(`{"id":%q,"cost":1,"priority":1,"tenant":%q}`, id, tenant)
	}
	b.ask(b.a, "POST", "/requests", body("one", "team-b")).fails(403, "forbidden")
	b.ask(b.a, "POST", "/requests", body("one", "team-a")).is(202)
	b.ask(b.admin, "POST", "/requests", `{"id":"two","cost":1,"priority":1}`).fails(400, "invalid_request")
	b.ask(b.admin, "POST", "/requests", body("two", "-")).fails(400, "invalid_request")
	a := b.ask(b.admin, "POST", "/requests", body("two", "team-b"))
	if r := read[openapi.Request](a, 202); r.Tenant != "team-b" || a.header.Get("Location") != "/requests/two?tenant=team-b" {
		t.Errorf("tenant %s at %s", r.Tenant, a.header.Get("Location"))
	}
	b.ask(b.admin, "GET", a.header.Get("Location"), "").is(200)
}

func TestAdminsNameTheTenant(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit(b.a, "one")
	for _, path := range []string{"/requests/one", "/requests/one/evidence", "/requests/one/journal", "/requests/one/logs", "/requests/one?tenant="} {
		for _, key := range []string{b.admin, b.viewer} {
			if e := b.ask(key, "GET", path, "").fails(400, "invalid_request"); value(e.Field, "") != "tenant" {
				t.Errorf("%s: field %q", path, value(e.Field, ""))
			}
		}
	}
	b.ask(b.admin, "POST", "/requests/one/release", "").fails(400, "invalid_request")
	b.ask(b.viewer, "GET", "/requests/one?tenant=team-a", "").is(200)
	b.ask(b.viewer, "GET", "/requests/one?tenant=team-b", "").fails(404, "not_found")
	b.ask(b.a, "GET", "/requests/one?tenant=team-a", "").is(200)
	b.ask(b.a, "GET", "/requests/one?tenant=", "").is(200)
}

func (b *bundle) page(key, query string) ([]string, string) {
	b.Helper()
	l := read[openapi.RequestList](b.ask(key, "GET", "/requests?"+query, ""), 200)
	ids := []string{}
	for _, r := range l.Items {
		ids = append(ids, r.Id)
	}
	return ids, l.Next
}

// pages follows the cursor to its end.
func (b *bundle) pages(key, query string) (ids []string, pages int) {
	b.Helper()
	next := ""
	for {
		page, n := b.page(key, query+"&after="+next)
		ids, pages = append(ids, page...), pages+1
		if n == "" {
			return ids, pages
		}
		if next = n; pages > 20 {
			b.Fatal("the list does not end")
		}
	}
}

func TestListPagesAndFilters(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 5 {
		b.submit(b.a, fmt.Sprintf("a%d", i))
	}
	b.submit(b.b, "b0")
	b.admit() // a0, a1 and b0; the rest is blocked by quota
	for query, want := range map[string]string{
		"": "a0 a1 a2 a3 a4 b0", "limit=1": "a0 a1 a2 a3 a4 b0", "limit=2": "a0 a1 a2 a3 a4 b0", "limit=3": "a0 a1 a2 a3 a4 b0", "limit=6": "a0 a1 a2 a3 a4 b0",
		"state=waiting": "a2 a3 a4", "state=reserved&tenant=team-a": "a0 a1", "tenant=team-b": "b0", "model=a3": "a3", "tenant=nobody": "",
		"reason=QuotaBlocked": "a2 a3 a4", "reason=QuotaBlocked&limit=1": "a2 a3 a4", "reason=QuotaBlocked&limit=2": "a2 a3 a4", "reason=QuotaBlocked&limit=3": "a2 a3 a4",
		"reason=Undelivered&limit=1": "a0 a1 b0", "reason=PoolBlocked": "", "reason=quotablocked": "",
	} {
		ids, pages := b.pages(b.viewer, query)
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s: %q in %d pages, want %q", query, got, pages, want)
		}
	}
	// A page that ends with the last row says so.
	if ids, next := b.page(b.viewer, "limit=6"); len(ids) != 6 || next != "" {
		t.Errorf("a full last page has next %q", next)
	}
	if ids, next := b.page(b.viewer, "reason=QuotaBlocked&limit=2"); len(ids) != 2 || next == "" {
		t.Errorf("a page of %v has next %q", ids, next)
	}
	if ids, _ := b.page(b.a, "tenant=team-a"); len(ids) != 5 {
		t.Errorf("team-a lists %v", ids)
	}
	for _, bad := range []string{"limit=0", "limit=1001", "limit=x", "state=odd", "after=x", "after=-1", "after=99999999999999999999"} {
		b.ask(b.a, "GET", "/requests?"+bad, "").fails(400, "invalid_request")
	}
}

func TestRecordsOfEveryState(t *testing.T) {
	t.Parallel()
	b := setup(t)
	get := func(id string) openapi.Request {
		t.Helper()
		return read[openapi.Request](b.ask(b.a, "GET", "/requests/"+id, ""), 200)
	}
	b.submit(b.a, "one")
	b.submit(b.a, "two")
	b.admit()
	b.submit(b.a, "three")
	if r := get("three"); value(r.Reason, "") != "QuotaBlocked" || r.Standing == nil || r.Standing.TenantUsed != 2 || r.Standing.TenantCap != 2 || value(r.Message, "") == "" {
		t.Errorf("waiting: %+v", r)
	}
	if r := get("one"); value(r.Reason, "") != "Undelivered" || r.Object != nil || r.Held != 1 || r.ReservedAt == nil {
		t.Errorf("undelivered: %+v", r)
	}
	rows, err := b.ledger.Claim(t.Context(), "relay", 1, time.Minute)
	b.ok(err)
	b.ok(b.ledger.Defer(t.Context(), rows[0], "apply: NameTaken: md-one", time.Hour))
	if r := get("one"); value(r.Reason, "") != "NameTaken" || !strings.Contains(value(r.Message, ""), "failed 1 times") {
		t.Errorf("name taken: %+v", r)
	}
	b.bind() // two
	if r := get("two"); value(r.Reason, "") != "ObjectLost" || r.Object == nil || r.Object.Uid != "uid-team-a-two" {
		t.Errorf("bound, and its object is not there: reason %q, object %v", value(r.Reason, ""), r.Object)
	}
	b.target.observe = func(ref budget.Ref) (delivery.Status, error) {
		return delivery.Status{Ref: ref, Exists: true, Ready: 1, Reason: delivery.Available, Message: "1 of 1"}, nil
	}
	if r := get("two"); value(r.Reason, "") != "Available" || r.ReadyReplicas != 1 || !r.EverReady {
		t.Errorf("ready: %+v", r)
	}
	b.ask(b.a, "DELETE", "/requests/two", "").is(202)
	if r := get("two"); value(r.Reason, "") != "Draining" || r.ReleaseRequestedAt == nil || r.State != "reserved" {
		t.Errorf("draining: %+v", r)
	}
	b.target.observe = func(ref budget.Ref) (delivery.Status, error) { return delivery.Status{}, errors.New("away") }
	if r := get("two"); value(r.Reason, "") != "Unknown" || !strings.Contains(value(r.Message, ""), "away") {
		t.Errorf("unreadable: %+v", r)
	}
	r := read[openapi.Request](b.ask(b.a, "POST", "/requests/three/release", ""), 202)
	if r.State != "released" || r.Held != 0 || r.ReleasedAt == nil || value(r.Reason, "") != "CancelledWhileWaiting" {
		t.Errorf("cancelled: %+v", r)
	}
}

func TestReleaseIsIdempotentAndTakesAnyBody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit(b.a, "one")
	b.admit()
	for _, body := range []string{"", `{}`, `{"why":"done"}`, "  "} {
		b.ask(b.a, "POST", "/requests/one/release", body).is(202)
	}
	r := b.request("POST", "/requests/one/release", "")
	r.Header.Set("Authorization", "Bearer "+b.a)
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader("")), -1 // chunked, and empty
	b.do(r).is(202)
	b.ask(b.a, "POST", "/requests/one/release", `{"because":"x"}`).fails(400, "invalid_request")
	b.ask(b.a, "POST", "/requests/one/release", `{"why":"`+strings.Repeat("x", 1025)+`"}`).fails(400, "invalid_request")
	b.ask(b.a, "POST", "/requests/none/release", "").fails(404, "not_found")
	j := read[openapi.JournalList](b.ask(b.a, "GET", "/requests/one/journal", ""), 200)
	if len(j.Items) != 1 || j.Items[0].Slots != 1 || j.Items[0].Op != "reserve" {
		t.Errorf("journal before the model is gone: %+v", j.Items)
	}
}

func TestForcedRelease(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit(b.a, "one")
	b.submit(b.a, "two")
	b.admit()
	path := "/requests/one/release?tenant=team-a&force=true"
	b.ask(b.a, "POST", "/requests/one/release?force=true", `{"why":"now"}`).fails(403, "forbidden")
	b.ask(b.viewer, "POST", path, `{"why":"now"}`).fails(403, "forbidden")
	for _, body := range []string{"", `{}`, `{"why":""}`, `{"why":"  "}`} {
		if e := b.ask(b.admin, "POST", path, body).fails(400, "invalid_request"); value(e.Field, "") != "why" {
			t.Errorf("field %q", value(e.Field, ""))
		}
	}
	if r := read[openapi.Request](b.ask(b.a, "GET", "/requests/one", ""), 200); r.ReleaseRequestedAt != nil {
		t.Fatal("a refused call released the request")
	}
	for range 2 {
		r := read[openapi.Request](b.ask(b.admin, "POST", path, `{"why":"the node burned down"}`), 202)
		if r.State != "released" || r.Held != 0 {
			t.Errorf("after force: %s with %d slots", r.State, r.Held)
		}
	}
	j := read[openapi.JournalList](b.ask(b.a, "GET", "/requests/one/journal", ""), 200)
	if len(j.Items) != 2 || j.Items[1].Slots != -1 {
		t.Errorf("journal: %+v", j.Items)
	}
	rep := read[openapi.VerifyReport](b.ask(b.admin, "GET", "/ledger/verify", ""), 200)
	if !rep.Clean {
		t.Errorf("violations: %+v", rep.Violations)
	}
	b.ask(b.admin, "DELETE", "/requests/two?tenant=team-a&force=true", `{"why":"too"}`).is(202)
}

// Without its reason on record, a forced credit is not given.
func TestForcedReleaseNeedsItsAuditRow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit(b.a, "one")
	b.admit()
	broken := setup(t, func(c *Config) { c.Ledger, c.Evidence, c.Clock = noAudit{b.ledger}, b.ledger, b.now })
	broken.ask(b.admin, "POST", "/requests/one/release?tenant=team-a&force=true", `{"why":"now"}`).fails(500, "internal")
	r, err := b.ledger.Get(t.Context(), budget.Ref{Tenant: "team-a", ID: "one"})
	b.ok(err)
	if r.State != budget.Reserved || r.Held != 1 {
		t.Errorf("the slots were given back without a record of why: %s", r.State)
	}
}

func TestAuditTellsWhoWhatWhyAndTheResult(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit(b.a, "one")
	b.ask(b.a, "POST", "/requests", `{"id":"one","cost":2,"priority":50}`).is(409)
	b.ask(b.admin, "POST", "/requests", `{"tenant":"team-a","id":"one","cost":2,"priority":50}`).is(409)
	b.ask(b.admin, "PUT", "/tenants/team-a/quota", `{"cap":5}`).is(200)
	k := read[openapi.CreatedKey](b.ask(b.admin, "POST", "/keys", `{"role":"viewer"}`), 201)
	b.ask(b.admin, "POST", "/requests/one/release?tenant=team-a", `{"why":"not needed"}`).is(202)
	b.ask(b.a, "GET", "/requests", "").is(200)
	b.ask(b.admin, "PUT", "/grants/team-a/m/team-b?pad="+strings.Repeat("x", 5000), "").is(200)
	want := []struct{ who, what, why, result string }{ // newest first
		{"admin " + idOf(b.admin), "PUT /grants/team-a/m/team-b", "", "ok"},
		{"admin " + idOf(b.admin), "POST /requests/one/release?tenant=team-a", "not needed", "ok"},
		{"admin " + idOf(b.admin), "POST /keys " + k.Id + " viewer", "", "ok"},
		{"admin " + idOf(b.admin), "PUT /tenants/team-a/quota cap=5", "", "ok"},
		{"admin " + idOf(b.admin), "POST /requests team-a/one", "", "exists with cost 1"},
		{"tenant " + idOf(b.a), "POST /requests team-a/one", "", "ok"},
	}
	got := b.audits()
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		g := got[i]
		if g.Who != w.who || !strings.HasPrefix(g.What, w.what) || g.Why != w.why || !strings.Contains(g.Result, w.result) || g.When.IsZero() {
			t.Errorf("row %d: %+v, want %+v", i, g, w)
		}
		if len(g.What) > auditText+4 {
			t.Errorf("row %d has %d bytes", i, len(g.What))
		}
	}
}

// passing admits everything right after a list was read.
type passing struct {
	budget.Ledger
	admit func()
}

func (p passing) List(ctx context.Context, f budget.Filter) ([]budget.Reservation, error) {
	rows, err := p.Ledger.List(ctx, f)
	p.admit()
	return rows, err
}

func (p passing) Get(ctx context.Context, ref budget.Ref) (budget.Reservation, error) {
	r, err := p.Ledger.Get(ctx, ref)
	p.admit()
	return r, err
}

// A request that is admitted between two reads is shown as admitted.
func TestRecordOfARequestThatMovesOn(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/requests", "/requests/one?tenant=team-a"} {
		b := setup(t)
		b.submit(b.a, "one")
		moving := setup(t, func(c *Config) { c.Ledger, c.Evidence = passing{b.ledger, b.admit}, b.ledger })
		a := moving.ask(b.admin, http.MethodGet, path, "").is(200)
		if !strings.Contains(string(a.body), `"state":"reserved"`) || !strings.Contains(string(a.body), "Undelivered") {
			t.Errorf("%s: %s", path, a.body)
		}
	}
}

func TestWireTime(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("", 3600)
	text, err := wiretime.Time(time.Date(2026, 3, 1, 13, 0, 0, 1500, zone)).MarshalText()
	if err != nil || string(text) != "2026-03-01T12:00:00.000001Z" {
		t.Errorf("%s, %v", text, err)
	}
	var back wiretime.Time
	if err := back.UnmarshalText([]byte("2026-03-01T13:00:00+01:00")); err != nil || !back.Std().Equal(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)) {
		t.Errorf("%v, %v", back.Std(), err)
	}
	if back.UnmarshalText([]byte("yesterday")) == nil || wiretime.Pointer(time.Time{}) != nil || (*wiretime.Time)(nil).Std() != (time.Time{}) {
		t.Error("what is no time was taken for one")
	}
}
