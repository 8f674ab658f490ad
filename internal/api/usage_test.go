package api

import (
	"testing"

	"modeldock.io/internal/api/openapi"
)

func TestUsageShowsTheCourseOfQuotasAndPools(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit(b.a, "one")
	b.submit(b.b, "other")
	b.admit()
	all := read[openapi.Usage](b.ask(b.viewer, "GET", "/usage?hours=1", ""), 200)
	if len(all.Tenants) < 2 || len(all.Pools) != 1 {
		t.Fatalf("a viewer reads %d tenants and %d pools", len(all.Tenants), len(all.Pools))
	}
	pool := all.Pools[0]
	if n := len(pool.Points); n < 2 || pool.Points[0].Used != 0 || pool.Points[n-1].Used != pool.Used || pool.Used != 2 {
		t.Errorf("the pool's course is %+v", pool)
	}
	own := read[openapi.Usage](b.ask(b.a, "GET", "/usage", ""), 200)
	if len(own.Tenants) != 1 || own.Tenants[0].Name != "team-a" || len(own.Pools) != 1 {
		t.Errorf("a tenant reads %+v", own)
	}
	for _, hours := range []string{"0", "745", "-1"} {
		if e := b.ask(b.a, "GET", "/usage?hours="+hours, "").fails(400, "invalid_request"); value(e.Field, "") != "hours" {
			t.Errorf("hours=%s: field %q", hours, value(e.Field, ""))
		}
	}
}
