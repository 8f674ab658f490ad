package gateway

import (
	"testing"

	"modeldock.io/internal/traffic/route"
)

// TestLinesAreDrawnByTheirTenants: naming a class is no way to the front.
func TestLinesAreDrawnByTheirTenants(t *testing.T) {
	t.Parallel()
	k := route.Key{Owner: "a", Model: "m", Version: "v1"}
	lines := []queueKey{{Key: k}, {k, "h200"}, {k, "a100"}}
	tenants := map[string]int{"": 90, "h200": 10, "a100": 0}
	first := map[string]int{}
	for range 5000 {
		first[lines[draw(lines, func(k queueKey) int { return tenants[k.class] })].class]++
	}
	if first[""] < 4300 || first["h200"] < 350 || first["a100"] != 0 {
		t.Errorf("first of 5000: %v", first)
	}
	if got := draw(lines, func(queueKey) int { return 0 }); got != 0 {
		t.Errorf("of empty lines, %d", got)
	}
}

// TestClassesAreForgotten once nobody waits for them.
func TestClassesAreForgotten(t *testing.T) {
	t.Parallel()
	var q classQueues
	k := route.Key{Owner: "a", Model: "m", Version: "v1"}
	q.enter(k, "")()
	one, two := q.enter(k, "h200"), q.enter(k, "h200")
	one()
	if list := q.of(k); len(list) != 1 || list[0] != "h200" {
		t.Errorf("%v", list)
	}
	two()
	if len(q.of(k)) != 0 || len(q.byKey) != 0 || q.total.Load() != 0 {
		t.Errorf("%v", q.byKey)
	}
}
