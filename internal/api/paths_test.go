package api

import (
	"strings"
	"testing"
)

// A path is served as what it looks like, or not at all.
func TestPathsAreReadOneWay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit(b.a, "one")
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/requests%2fone", ""}, {"GET", "/requests/one%2Fjournal", ""}, {"POST", "/requests/one%2frelease", ""},
		{"DELETE", "/requests/x/%2e%2e/one", ""}, {"GET", "/requests/%2e", ""}, {"GET", `/requests%5cone`, ""}, {"GET", "/requests/one%00", ""},
		{"PUT", "/tenants/team-a%2fquota", `{"cap":9}`}, {"DELETE", "/grants/team-a%2fone/team-b", ""}, {"GET", "/nowhere%2f", ""},
	} {
		for _, key := range []string{b.a, b.admin, ""} {
			if e := b.ask(key, c.method, c.path, c.body).fails(400, "invalid_request"); !strings.Contains(e.Message, "encoded") {
				t.Errorf("%s %s: %s", c.method, c.path, e.Message)
			}
		}
	}
	if r := b.ask(b.a, "GET", "/requests/%6fne", "").is(200); !strings.Contains(string(r.body), `"state":"waiting"`) {
		t.Errorf("a request was released by another path: %s", r.body)
	}
}

// What a stranger asks with is not judged: the answer is 401 whatever it is.
func TestStrangersHear401Only(t *testing.T) {
	t.Parallel()
	b := setup(t, manual)
	asked := 0
	for _, o := range readDescription(t).operations() {
		if o.String() == "POST /session" {
			continue
		}
		path := o.filled(t, map[string]string{
			"id": "!", "requestId": "!", "tenant": "!", "pool": "!", "keyId": "!", "owner": "!", "model": "!", "name": "!", "grantee": "!",
		})
		for _, query := range append([]string{"surplus"}, o.query...) {
			a := b.ask("", o.method, path+"?"+query+"=!&"+query+"=2", `{"bad":`)
			a.fails(401, "unauthorised")
			if a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s names no scheme", a.what)
			}
			asked++
		}
	}
	if asked < 60 {
		t.Errorf("only %d calls were tried", asked)
	}
	b.ask(b.a, "GET", "/requests?limit=x", "").fails(400, "invalid_request")
}
