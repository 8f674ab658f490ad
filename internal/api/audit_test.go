package api

import (
	"testing"
)

// What changes nothing leaves no row, so that no tenant fills the audit with
// nothing and makes what others did be forgotten.
func TestNothingChangedIsNotAudited(t *testing.T) {
	t.Parallel()
	b := setup(t)
	one := `{"id":"one","cost":1,"priority":50}`
	for _, c := range []struct {
		method, path, body string
		status             int
		again              int // status when repeated; 0: the same
	}{
		{"POST", "/requests", one, 202, 0},
		{"PUT", "/grants/team-a/one/team-b", "", 200, 0},
		{"DELETE", "/grants/team-a/one/team-b", "", 204, 0},
		{"PATCH", "/requests/one", `{"generation":1,"traffic":{"weight":7}}`, 200, 409},
		{"POST", "/requests/one/release", "", 202, 0},
	} {
		before := len(b.audits())
		b.ask(b.a, c.method, c.path, c.body).is(c.status)
		if n := len(b.audits()) - before; n != 1 {
			t.Errorf("%s %s left %d rows, want 1", c.method, c.path, n)
		}
		for range 3 {
			again := c.status
			if c.again != 0 {
				again = c.again
			}
			b.ask(b.a, c.method, c.path, c.body).is(again)
		}
		if n := len(b.audits()) - before; n != 1 {
			t.Errorf("%s %s, repeated, left %d rows, want 1", c.method, c.path, n)
		}
	}
	before := len(b.audits())
	b.ask(b.a, "DELETE", "/grants/team-a/nope/x", "").is(204)
	b.ask(b.a, "DELETE", "/grants/team-a/no%20pe/x", "").fails(400, "invalid_request")
	b.ask(b.a, "PUT", "/grants/team-a/no%20pe/x", "").fails(400, "invalid_request")
	b.ask(b.a, "POST", "/requests/none/release", "").is(404)
	b.ask(b.a, "DELETE", "/requests/none", "").is(404)
	b.ask(b.a, "POST", "/requests", `{"id":"one","cost":2,"priority":50}`).is(409)
	b.ask(b.a, "PATCH", "/requests/one", `{"generation":2,"traffic":{"weight":7}}`).is(409)
	if n := len(b.audits()) - before; n != 0 {
		t.Errorf("calls that changed nothing left %d rows: %+v", n, b.audits()[:n])
	}
}
