package kube

import (
	"fmt"
	"testing"
	"time"

	"modeldock.io/internal/delivery"
)

// A tenant that starts and ends many objects makes its own proofs go.
func TestProofsAreShared(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	p := newProofs(func() time.Time { return now })
	ran := func(tenant, name string) {
		now = now.Add(time.Second)
		p.ran(tenant, name, "uid-"+name, delivery.Replica{UID: name, StartedAt: now})
	}
	ran("team-b", "b")
	for i := range maxObjects + 100 {
		ran("team-a", fmt.Sprint("a", i))
	}
	known := func(name string) bool { _, last, _ := p.of("models", name); return len(last) == 1 }
	if len(p.byID) != maxObjects || !known("b") || known("a100") || !known("a101") || !known(fmt.Sprint("a", maxObjects+99)) {
		t.Errorf("%d objects; of team-b %t, a100 %t, a101 %t", len(p.byID), known("b"), known("a100"), known("a101"))
	}
}
