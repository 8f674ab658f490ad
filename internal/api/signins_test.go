package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/budget"
)

// Who signed in and out, who did not get in, and from where; never the key.
func TestSessionsAreAudited(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cookie, s := b.signIn(b.a)
	b.bySession(cookie, s.CsrfToken, "DELETE", "/session", "").is(204)
	cookie, s = b.signIn(b.admin)
	b.bySession(cookie, s.CsrfToken, "DELETE", "/session", "").is(204)
	wrong := "mdk_" + idOf(b.a) + "_" + secretOf(b.b)
	proxied := b.request("POST", "/session?key="+wrong, `{"key":"`+wrong+`"}`)
	proxied.Header.Set("X-Forwarded-For", "203.0.113.7, 203.0.113.9")
	b.do(proxied).fails(401, "unauthorised")
	b.ask("", "POST", "/session", `{"key":"mdk_zq7unknown_`+strings.Repeat("a", 52)+`"}`).fails(401, "unauthorised")
	b.ask("", "POST", "/session", `{"key":"zq7password"}`).fails(401, "unauthorised")
	b.ask("", "POST", "/session", `{"ky":1}`).fails(400, "invalid_request") // says nothing about a caller
	b.ask(b.a, "DELETE", "/session", "").is(204)                            // a key has no session to end
	want := []budget.AuditEntry{
		{Who: "tenant " + idOf(b.a), What: "POST /session", Result: "ok", Tenant: "team-a", Source: "127.0.0.1"},
		{Who: "tenant " + idOf(b.a), What: "DELETE /session", Result: "ok", Tenant: "team-a", Source: "127.0.0.1"},
		{Who: "admin " + idOf(b.admin), What: "POST /session", Result: "ok", Source: "127.0.0.1"},
		{Who: "admin " + idOf(b.admin), What: "DELETE /session", Result: "ok", Source: "127.0.0.1"},
		{Who: "nobody", What: "POST /session with key " + idOf(b.a), Result: "the key is not valid: unknown id or wrong secret", Tenant: "team-a", Source: "127.0.0.1 for 203.0.113.9"},
		{Who: "nobody", What: "POST /session", Result: "the key is not valid: unknown id or wrong secret", Source: "127.0.0.1"},
		{Who: "nobody", What: "POST /session", Result: "the key is not valid: it must have the form mdk_<id>_<secret>", Source: "127.0.0.1"},
	}
	rows := b.audits()
	slices.Reverse(rows)
	if len(rows) != len(want) {
		t.Fatalf("%d rows, want %d: %+v", len(rows), len(want), rows)
	}
	for i, e := range rows {
		if e.When.IsZero() || b.now().Sub(e.When) > time.Hour {
			t.Errorf("row %d is of %s", i, e.When)
		}
		e.Seq, e.When = 0, time.Time{}
		if e != want[i] {
			t.Errorf("row %d is\n%+v, want\n%+v", i, e, want[i])
		}
		for _, secret := range []string{secretOf(b.a), secretOf(b.b), secretOf(b.admin), "zq7"} {
			if strings.Contains(fmt.Sprint(e), secret) {
				t.Errorf("row %d shows what was sent: %+v", i, e)
			}
		}
	}
}

// A stranger that guesses leaves a few rows and one count per hour, so that
// nothing else is pushed out of the audit; so does a key that signs in again and
// again.
func TestSignInsDoNotFloodTheAudit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	guess := func() { b.ask("", "POST", "/session", `{"key":"mdk_x_y"}`).fails(401, "unauthorised") }
	for range 4 * failedPerAddress {
		guess()
	}
	if n := len(b.audits()); n != failedPerAddress {
		t.Fatalf("one address left %d rows", n)
	}
	for range madePerKey + 3 {
		b.signIn(b.viewer)
	}
	if n := len(b.audits()); n != failedPerAddress+madePerKey {
		t.Fatalf("one key left %d rows", n-failedPerAddress)
	}
	b.ok(b.server.SumUpSignIns(t.Context(), false)) // not over yet
	b.skew.Add(int64(signInWindow))
	guess()
	rows := b.audits()
	if n := len(rows); n != failedPerAddress+madePerKey+2 {
		t.Fatalf("the next hour left %d rows", n-failedPerAddress-madePerKey)
	}
	if rows[0].Result == "" || rows[1].Who != "nobody" || !strings.HasPrefix(rows[1].What, "POST /session since ") ||
		rows[1].Result != "15 more that failed, from 1 addresses, 15 of them from 127.0.0.1; 3 more of keys that signed in or out" {
		t.Errorf("the count is %+v", rows[1])
	}
	b.ok(b.server.SumUpSignIns(t.Context(), true)) // nothing was left out
	if n := len(b.audits()); n != len(rows) {
		t.Errorf("a count of nothing was written: %+v", b.audits()[0])
	}
}

// All addresses together leave few rows; one of IPv6 counts as its network.
func TestFailedSignInsOfManyAddressesAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := newSignIns(func() time.Time { return now })
	var stored, of6 int
	for i := range 50 {
		if s.fail(fmt.Sprintf("2001:db8::%x", i)) {
			of6++
		}
	}
	for i := range 10_000 {
		if s.fail(fmt.Sprintf("10.0.%d.%d", i/250, i%250)) {
			stored++
		}
	}
	more, _ := s.over(true)
	if of6 != failedPerAddress || stored != failedOfAll-failedPerAddress || more.failed != 10_050-failedOfAll || len(more.by) != maxOrigins {
		t.Errorf("%d and %d were stored, %d counted of %d addresses", of6, stored, more.failed, len(more.by))
	}
	if !s.fail("192.0.2.1") || s.failed != 1 {
		t.Error("the next window is not empty")
	}
}

func TestAuditIsSearchedByAdmins(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit(b.a, "one")
	b.submit(b.b, "two")
	b.ask(b.admin, "PUT", "/tenants/team-a/quota", `{"cap":5}`).is(200)
	middle := b.now()
	b.skew.Add(int64(time.Minute))
	b.ask(b.admin, "POST", "/requests", `{"id":"three","cost":1,"priority":1,"tenant":"team-a"}`).is(202)
	created := read[openapi.CreatedKey](b.ask(b.admin, "POST", "/keys", `{"role":"tenant","tenant":"team-b"}`), 201)
	b.ask(b.admin, "DELETE", "/keys/"+created.Id, "").is(204)
	for _, key := range []string{b.a, b.viewer} {
		b.ask(key, "GET", "/audit", "").fails(403, "forbidden")
	}
	b.ask("", "GET", "/audit?limit=x", "").fails(401, "unauthorised")
	submitOne, submitTwo, quota, three := "POST /requests team-a/one", "POST /requests team-b/two", "PUT /tenants/team-a/quota cap=5", "POST /requests team-a/three"
	create, revoke := "POST /keys "+created.Id+" tenant team-b", "DELETE /keys/"+created.Id
	for query, want := range map[string][]string{
		"":                              {revoke, create, three, quota, submitTwo, submitOne},
		"tenant=team-a":                 {three, quota, submitOne},
		"tenant=team-b":                 {revoke, create, submitTwo},
		"actor=" + idOf(b.a):            {submitOne},
		"actor=admin&action=POST":       {create, three},
		"action=POST+/requests":         {three, submitTwo, submitOne},
		"since=" + wireText(middle):     {revoke, create, three},
		"until=" + wireText(middle):     {quota, submitTwo, submitOne},
		"tenant=nobody":                 {},
		"limit=2":                       {revoke, create},
		"limit=2&after=4":               {quota, submitTwo},
		"limit=2&after=2":               {submitOne},
		"tenant=team-a&limit=1&after=3": {submitOne},
	} {
		list := read[openapi.AuditList](b.ask(b.admin, "GET", "/audit?"+query, ""), 200)
		got := []string{}
		for _, e := range list.Items {
			got = append(got, e.Action)
			if e.Result != "ok" || e.Id == "" || value(e.Source, "") != "127.0.0.1" {
				t.Errorf("%s: %+v", query, e)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
		if more := map[string]string{"limit=2": "5", "limit=2&after=4": "2"}[query]; list.Next != more {
			t.Errorf("%s: goes on with %q, want %q", query, list.Next, more)
		}
	}
	for query, field := range map[string]string{"since=yesterday": "since", "until=1": "until", "limit=0": "limit", "limit=1001": "limit", "after=-1": "after", "after=x": "after"} {
		if e := b.ask(b.admin, "GET", "/audit?"+query, "").fails(400, "invalid_request"); value(e.Field, "") != field {
			t.Errorf("%s: %+v", query, e)
		}
	}
}

func wireText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// Behind a proxy on the same machine callers count for themselves; what others
// say of themselves does not count.
func TestWhomAFailedSignInCountsFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ peer, forwarded, want string }{
		{"127.0.0.1:9", "", "127.0.0.1"},
		{"127.0.0.1:9", "198.51.100.1, 203.0.113.9", "203.0.113.9"},
		{"[::1]:9", "203.0.113.9", "203.0.113.9"},
		{"127.0.0.1:9", "nobody", "127.0.0.1"},
		{"192.0.2.1:9", "203.0.113.9", "192.0.2.1"},
	} {
		r := &http.Request{RemoteAddr: c.peer, Header: http.Header{}}
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		if got := origin(r); got != c.want {
			t.Errorf("%s for %q counts for %s, want %s", c.peer, c.forwarded, got, c.want)
		}
	}
}
