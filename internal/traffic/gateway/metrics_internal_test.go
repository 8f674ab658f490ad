package gateway

import (
	"fmt"
	"testing"
)

// A tenant with very many models keeps no other tenant's from being told apart.
func TestMetersAreShared(t *testing.T) {
	t.Parallel()
	m, err := newMetrics(&Gateway{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 * maxMeters {
		m.meter("team-a", fmt.Sprint("m", i), "v1")
	}
	if n := len(m.meters); n != maxTenantMeters+1 || m.meter("team-b", "m", "v1") == m.meter("team-a", "beyond", "v1") {
		t.Errorf("%d of one tenant, want %d and one for the rest", n, maxTenantMeters)
	}
}
