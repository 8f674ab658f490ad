package local

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"modeldock.io/internal/delivery"
	"modeldock.io/internal/device"
	"modeldock.io/internal/modelspec"
)

// An object that no submit takes is held with its reason; others run beside it,
// and it can be ended like any other.
func TestOneUnplaceableObjectHoldsItself(t *testing.T) {
	t.Parallel()
	metrics := NewMetrics()
	b := setup(t, func(c *Config) { c.Metrics = metrics })
	gauges := prometheus.NewRegistry()
	if err := gauges.Register(metrics); err != nil {
		t.Fatal(err)
	}
	figures := func(unplaceable string) {
		t.Helper()
		want := "# HELP modeldock_objects_unplaceable Objects that are held because no submit could have asked for them; 0 is the only good value.\n" +
			"# TYPE modeldock_objects_unplaceable gauge\nmodeldock_objects_unplaceable " + unplaceable + "\n"
		eventually(t, func() bool {
			return testutil.GatherAndCompare(gauges, strings.NewReader(want), "modeldock_objects_unplaceable") == nil
		}, func() string { return "not " + unplaceable + " objects are unplaceable" })
	}
	bad := desired("team-a", "bad", func(m *modelspec.Model) { m.GPUs = 0 })
	many := desired("team-a", "many", func(m *modelspec.Model) { m.Replicas = modelspec.Replicas{Min: 200_000_000, Max: 200_000_000} })
	good := desired("team-b", "good")
	gone := b.apply(bad)
	b.apply(many)
	b.apply(good)
	b.untilReady(good)
	for _, d := range []delivery.Desired{bad, many} {
		st := b.until(d, "held", func(s delivery.Status) bool { return s.Reason == delivery.Unplaceable })
		if !strings.Contains(st.Message, "cannot be placed") || len(st.Replicas) != 1 {
			t.Errorf("%s: %d replicas, %s", d.Name, len(st.Replicas), st.Message)
		}
	}
	figures("2")
	b.delete(bad, gone)
	b.untilGone(bad)
	figures("1")
}

// Where the figures of the cards make no sense, whoever runs the machine hears
// it: in the log once, and for /readyz.
func TestPlanningThatFailsIsTold(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var failed error
	var log bytes.Buffer // written under the target's lock, read after its end
	b := setup(t, func(c *Config) {
		c.Inventory.Cards = []device.Card{c.Inventory.Cards[0], c.Inventory.Cards[0]}
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		c.OnPlan = func(err error) {
			mu.Lock()
			defer mu.Unlock()
			failed = err
		}
	})
	heard := func(failing bool) {
		t.Helper()
		eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return (failed != nil) == failing }, func() string { return "planning was not told of" })
	}
	heard(false) // nothing is to start
	d := desired("team-a", "demo")
	obj := b.apply(d)
	heard(true)
	b.until(d, "held", func(s delivery.Status) bool { return strings.Contains(s.Message, cardsUnclear) })
	b.target.poke() // the same again is no second line
	b.delete(d, obj)
	b.untilGone(d)
	heard(false)
	b.stop(b.target)
	if n := strings.Count(log.String(), "nothing can be placed on this machine"); n != 1 || !strings.Contains(log.String(), "is listed twice") {
		t.Errorf("%d lines tell of it: %s", n, log.String())
	}
}
