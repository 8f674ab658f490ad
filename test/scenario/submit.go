package scenario

import (
	"net/http"
	"strings"
	"testing"
)

// SubmittedTwice is story 1 with C011 and C012: the same id and meaning is one
// record whatever its spelling; a changed payload is 409; another tenant's id
// is its own, and nobody sees a stranger's.
func SubmittedTwice(t *testing.T, h Harness) {
	a, b := As(t, h, "team-a"), As(t, h, "team-b")
	first := record(t, a.Must(202, "POST", "/requests", `{"id":"s1","cost":1,"priority":3}`))
	for _, same := range []string{
		`{"id":"s1","cost":1,"priority":3}`,
		`{ "priority":3, "cost":1, "id":"s1" }`,
		`{"id":"\u0073\u0031","cost":1,"priority":3}`,
		`{"id":"s1","cost":1,"priority":3,"pool":"default","ttlSeconds":86400,"model":{"name":"s1","version":"v1","engine":"simulated","gpuMemoryMiB":4096,"replicas":{"min":1,"max":1}}}`,
	} {
		ans := a.Must(202, "POST", "/requests", same)
		if r := record(t, ans); r.ID != "s1" || r.CreatedAt != first.CreatedAt {
			t.Errorf("%s made another record: %+v, first %+v", same, r, first)
		}
		if loc := ans.Header.Get("Location"); loc != "/requests/s1" {
			t.Errorf("Location is %q", loc)
		}
	}
	for change, body := range map[string]string{
		"cost":     `{"id":"s1","cost":2,"priority":3}`,
		"priority": `{"id":"s1","cost":1,"priority":4}`,
		"model":    `{"id":"s1","cost":1,"priority":3,"model":{"gpuMemoryMiB":5000}}`,
		"ttl":      `{"id":"s1","cost":1,"priority":3,"ttlSeconds":60}`,
	} {
		if code, _, _ := a.Must(409, "POST", "/requests", body).Error(t); code != "conflict" {
			t.Errorf("a changed %s is %s, want conflict", change, code)
		}
	}
	if r := a.Get("s1"); r.Cost != 1 || r.Priority != 3 {
		t.Errorf("a refused change was written: %+v", r)
	}
	b.Must(404, "GET", "/requests/s1", nil)
	other := b.Submit("s1", 2, nil)
	if a.Get("s1").Cost != 1 || b.Get("s1").Cost != 2 || other.Tenant != "team-b" {
		t.Error("two tenants with one id share a record")
	}
	ra, rb := a.Ready("s1"), b.Ready("s1")
	if ra.Object.UID == rb.Object.UID || ra.Object.Name == rb.Object.Name {
		t.Errorf("two requests share an object: %+v and %+v", ra.Object, rb.Object)
	}
	b.Release("s1")
	b.Released("s1")
	if r := a.Get("s1"); r.State != "reserved" || r.Object.UID != ra.Object.UID {
		t.Errorf("another tenant's release moved this one: %+v", r)
	}
	a.Release("s1")
	a.Released("s1")
	again := record(t, a.Must(202, "POST", "/requests", `{"priority":3,"cost":1,"id":"s1"}`))
	if again.State != "released" || again.CreatedAt != first.CreatedAt {
		t.Errorf("a submit after the release made something new: %+v", again)
	}
	if j := strings.Join(a.Journal("s1"), ", "); j != "reserve 1, release -1" {
		t.Errorf("journal of s1: %s", j)
	}
	VerifyClean(t, h)
}

// NamesStayApart is C001 and C003: ids are compared byte for byte and every
// accepted one has an object name of its own that is a DNS label.
func NamesStayApart(t *testing.T, h Harness) {
	As(t, h, "admin").Must(200, "PUT", "/tenants/team-a/quota", map[string]any{"cap": 100})
	As(t, h, "admin").Must(200, "PUT", "/pools/default", map[string]any{"cap": 100})
	a := As(t, h, "team-a")
	small := map[string]any{"model": map[string]any{"gpuMemoryMiB": 16}}
	a.Submit("job-a", 1, small)
	a.Submit("JOB-A", 2, small)
	if x, y := a.Get("job-a"), a.Get("JOB-A"); x.Cost != 1 || y.Cost != 2 || x.ID != "job-a" || y.ID != "JOB-A" {
		t.Errorf("job-a and JOB-A are mixed up: %+v, %+v", x, y)
	}
	a.Must(404, "GET", "/requests/Job-a", nil)
	for _, id := range []string{"a-b", "a_b", "a.b", "A-b", "a..b", "9a", strings.Repeat("x", 128)} {
		a.Submit(id, 1, small)
	}
	names := map[string]string{}
	for _, id := range []string{"job-a", "JOB-A", "a-b", "a_b", "a.b", "A-b", "a..b", "9a", strings.Repeat("x", 128)} {
		name := a.Until(id, "delivery", func(r Record) bool { return r.Object.UID != "" }).Object.Name
		if !dnsLabel(name) {
			t.Errorf("object name %q of id %q is no DNS-1123 label", name, id)
		}
		if other, taken := names[name]; taken {
			t.Errorf("ids %q and %q share the name %q", id, other, name)
		}
		names[name] = id
	}
	for _, id := range []string{"a/b", "a\nb", "-a", "a-", "😀", "中文", "a b", ".", "..", "", strings.Repeat("x", 129), "a\x00"} {
		ans := a.Do("POST", "/requests", map[string]any{"id": id, "cost": 1, "priority": 1})
		if ans.Status != http.StatusBadRequest {
			t.Errorf("id %q: status %d, want 400", id, ans.Status)
			continue
		}
		if _, _, field := ans.Error(t); field != "id" {
			t.Errorf("id %q: the error names %q, want id", id, field)
		}
	}
}

func dnsLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// BadInputChangesNothing is C006, C009 and their kind: everything that two
// readers could understand differently is 400 and writes nothing.
func BadInputChangesNothing(t *testing.T, h Harness) {
	a := As(t, h, "team-a")
	before := Quota(t, h, "team-a")
	bad := func(body, field string) {
		t.Helper()
		ans := a.Do("POST", "/requests", body)
		if ans.Status != http.StatusBadRequest {
			t.Errorf("%.80s: status %d, want 400: %.200s", body, ans.Status, ans.Body)
			return
		}
		code, message, got := ans.Error(t)
		if code != "invalid_request" || (field != "" && got != field) {
			t.Errorf("%.80s: %s on field %q (%s), want invalid_request on %q", body, code, got, message, field)
		}
	}
	bad(`{"id":"d1","cost":1,"cost":1000,"priority":1}`, "cost")
	bad(`{"id":"d2","id":"d3","cost":1,"priority":1}`, "id")
	bad(`{"id":"d1","cost":1,"Cost":2,"priority":1}`, "Cost")
	bad(`{"id":"d1","cost":1,"priority":1,"model":{"env":{"A":"1","A":"2"}}}`, "model.env.A")
	for _, cost := range []string{`0`, `-1`, `-0`, `1.5`, `0.1`, `1e-3`, `10.0`, `1e1`, `"10"`, `true`, `null`, `[]`, `{}`, `1000001`, `9223372036854775808`} {
		bad(`{"id":"c1","cost":`+cost+`,"priority":1}`, "cost")
	}
	bad(`{"id":"c1","cost":NaN,"priority":1}`, "")
	bad(`{"id":"c1","priority":1}`, "cost")
	for _, priority := range []string{`-1`, `101`, `1.0`, `"1"`, `null`} {
		bad(`{"id":"c1","cost":1,"priority":`+priority+`}`, "priority")
	}
	for field, model := range map[string]string{
		"model.gpuMemoryMiB":   `{"gpuMemoryMiB":0}`,
		"model.gpus":           `{"gpus":-1}`,
		"model.replicas.min":   `{"replicas":{"min":-1}}`,
		"model.replicas.max":   `{"replicas":{"min":3,"max":2}}`,
		"model.engine":         `{"engine":"cuda"}`,
		"model.name":           `{"name":"../etc"}`,
		"model.command":        `{"engine":"custom"}`,
		"model.traffic.weight": `{"traffic":{"weight":1001}}`,
		"model.healthPath":     `{"engine":"custom","command":["x"],"healthPath":"health"}`,
		"model.unknown":        `{"unknown":1}`,
		"model.source":         `{"engine":"ollama","source":"ftp://host/model"}`,
	} {
		bad(`{"id":"c1","cost":1,"priority":1,"model":`+model+`}`, field)
	}
	for _, body := range []string{``, `null`, `[]`, `"x"`, `{`, `{"id":"c1","cost":1,"priority":1} {}`, "{\"id\":\"\xff\",\"cost\":1,\"priority\":1}"} {
		bad(body, "")
	}
	if ans := a.Do("POST", "/requests", `{"id":"c1","cost":1,"priority":1,"pool":"`+strings.Repeat("x", 70<<10)+`"}`); ans.Status != 413 {
		t.Errorf("a body of 70 KiB: status %d, want 413", ans.Status)
	}
	for _, id := range []string{"d1", "d2", "d3", "c1"} {
		a.Must(404, "GET", "/requests/"+id, nil)
	}
	if after := Quota(t, h, "team-a"); after != before {
		t.Errorf("quota moved from %+v to %+v", before, after)
	}
}

// RefusalsHaveOneShape has settings, paths, methods and rights that are wrong:
// each is refused in JSON, with its own status.
func RefusalsHaveOneShape(t *testing.T, h Harness) {
	a, admin := As(t, h, "team-a"), As(t, h, "admin")
	for _, c := range []struct {
		by           Caller
		method, path string
		body         any
		status       int
	}{
		{a, "PATCH", "/requests/x", `{"generation":1,"scaling":{"idleSeconds":5}}`, 404},
		{a, "GET", "/requests/x/scaling", nil, 404},
		{a, "POST", "/simulate", `{"trace":"what"}`, 400},
		{a, "POST", "/nodes/fit", `{"gpuMemoryMiB":0}`, 400},
		{a, "PUT", "/tenants/team-a/limits", `{}`, 403},
		{a, "POST", "/requests", `{"id":"x","cost":1,"priority":1,"model":{"scaling":{"idleSeconds":-5}}}`, 400},
		{a, "POST", "/requests", `{"id":"x","cost":1,"priority":1,"model":{"coldStart":{"timeoutSeconds":0}}}`, 400},
		{a, "GET", "/nowhere", nil, 404},
		{a, "PUT", "/requests", `{}`, 405},
		{a, "PUT", "/tenants/team-a/quota", `{"cap":9}`, 403},
		{a, "GET", "/ledger/verify", nil, 403},
		{a, "GET", "/keys", nil, 403},
		{admin, "GET", "/requests/x", nil, 400},
	} {
		ans := c.by.Do(c.method, c.path, c.body)
		if ans.Status != c.status {
			t.Errorf("%s %s: status %d, want %d", c.method, c.path, ans.Status, c.status)
			continue
		}
		ans.Error(t)
		if c.status == 405 && ans.Header.Get("Allow") == "" {
			t.Errorf("%s %s: 405 without Allow", c.method, c.path)
		}
	}
	a.Must(404, "GET", "/requests/x", nil)
}
