package gateway_test

import (
	"net/http"
	"testing"
	"time"

	"modeldock.io/internal/traffic/gateway"
)

// TestRefusalsAreCountedWhenTheyAreMany: a tenant's refused requests leave
// records up to a rate, and after that figures. Its other requests, and those
// of other tenants, leave records all the while.
func TestRefusalsAreCountedWhenTheyAreMany(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := setup(t, func(cfg *gateway.Config) { cfg.Clock = func() time.Time { return now } })
	b.echo("team-a", "m1", "v1")
	b.echo("team-b", "m2", "v1")
	const asked, recorded = 260, 200
	for range asked {
		if got := b.chat(keyB, "{"); got.status != http.StatusBadRequest {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
	served := b.chat(keyB, `{"model":"m2","messages":[{"role":"user","content":"hi"}]}`)
	b.record(served.header.Get("X-Request-Id"))
	other := b.chat(keyA, "{")
	b.record(other.header.Get("X-Request-Id"))
	refusals := 0
	for _, r := range b.records.all() {
		if r.Tenant == "team-b" && r.Status == http.StatusBadRequest {
			refusals++
		}
	}
	if unrecorded := b.metrics("modeldock_gateway_unrecorded_refusals_total")[""]; refusals != recorded || unrecorded != asked-recorded {
		t.Errorf("%d refusals are recorded and %v counted, of %d", refusals, unrecorded, asked)
	}
}
