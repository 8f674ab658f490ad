package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/budget"
)

func bounded(waiting, requests, grants int64) func(*Config) {
	return func(c *Config) { c.Bounds = budget.Bounds{Waiting: waiting, Requests: requests, Grants: grants} }
}

// A tenant fills its own share of the ledger and no more; the same submit stays
// the same answer, and others are not touched.
func TestWaitingRequestsAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t, manual, bounded(3, 100, 100))
	body := func(n int) string { return fmt.Sprintf(`{"id":"r%d","cost":1,"priority":1}`, n) }
	for n := range 3 {
		b.ask(b.a, "POST", "/requests", body(n)).is(202)
	}
	e := b.ask(b.a, "POST", "/requests", body(3)).fails(429, "too_many_stored")
	if !strings.Contains(e.Message, "tenant team-a has 3 waiting requests") || !strings.Contains(e.Message, "--max-waiting") {
		t.Errorf("refused with %q", e.Message)
	}
	b.ask(b.admin, "POST", "/requests", `{"tenant":"team-a","id":"r3","cost":1,"priority":1}`).fails(429, "too_many_stored")
	b.ask(b.a, "POST", "/requests", body(0)).is(202)
	b.ask(b.b, "POST", "/requests", body(3)).is(202)
	b.ask(b.a, "POST", "/requests/r0/release", "").is(202)
	b.skew.Store(int64(countsAge))
	b.ask(b.a, "POST", "/requests", body(3)).is(202)
	b.ask(b.a, "POST", "/requests", body(4)).fails(429, "too_many_stored")
	before := len(b.audits())
	b.ask(b.a, "POST", "/requests", body(4)).fails(429, "too_many_stored")
	if rows := b.audits(); len(rows) != before {
		t.Errorf("a refusal for its number fills the audit: %+v", rows[0])
	}
}

// What was released counts as stored, for it stays.
func TestStoredRequestsAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t, manual, bounded(100, 3, 100))
	for n := range 3 {
		b.ask(b.a, "POST", "/requests", fmt.Sprintf(`{"id":"r%d","cost":1,"priority":1}`, n)).is(202)
		b.ask(b.a, "DELETE", fmt.Sprintf("/requests/r%d", n), "").is(202)
	}
	b.skew.Store(int64(time.Minute))
	e := b.ask(b.a, "POST", "/requests", `{"id":"r3","cost":1,"priority":1}`).fails(429, "too_many_stored")
	if !strings.Contains(e.Message, "3 stored requests") || !strings.Contains(e.Message, "--max-requests") {
		t.Errorf("refused with %q", e.Message)
	}
}

func TestGrantsAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t, manual, bounded(100, 100, 2))
	b.ask(b.a, "PUT", "/grants/team-a/m/one", "").is(200)
	b.ask(b.a, "PUT", "/grants/team-a/m/two", "").is(200)
	e := b.ask(b.a, "PUT", "/grants/team-a/m/three", "").fails(429, "too_many_stored")
	if !strings.Contains(e.Message, "2 grants") {
		t.Errorf("refused with %q", e.Message)
	}
	b.ask(b.b, "PUT", "/grants/team-b/m/three", "").is(200)
	b.ask(b.a, "DELETE", "/grants/team-a/m/one", "").is(204)
	b.skew.Store(int64(countsAge))
	b.ask(b.a, "PUT", "/grants/team-a/m/three", "").is(200)
}

// However many tenants an admin names, few are remembered.
func TestCountedTenantsAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t, manual)
	rows := newStoredRows(budget.Bounds{}, b.ledger, b.now)
	for n := range maxCounted + 10 {
		if len(rows.tenants) > maxCounted {
			t.Fatalf("%d tenants are remembered", len(rows.tenants))
		}
		rows.tenants[fmt.Sprint(n)] = &counted{}
		b.ok(rows.submit(b.Context(), "team-a"))
		delete(rows.tenants, "team-a")
	}
}
