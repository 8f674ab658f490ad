package local

import (
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/delivery"
	"modeldock.io/internal/device"
	"modeldock.io/internal/placement"
)

// What is measured on a real card but held by no replica counts as taken.
func TestStrangersOnACardCountAsTaken(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) {
		c.Inventory = device.Inventory{Cards: []device.Card{
			{UUID: "GPU-a", Model: "A100", Total: 20000, Used: 12600, Healthy: true},
			{UUID: "GPU-b", Index: 1, Model: "A100", Total: 10000, Used: 300, Healthy: true},
		}}
	})
	nodes, err := b.target.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	a, free := nodes[0].Cards[0], nodes[0].Cards[1]
	if !a.Measured || a.UnaccountedMiB != 12000 || a.FreeMiB != 7400 || free.UnaccountedMiB != 0 || free.FreeMiB != 9700 {
		t.Fatalf("cards %+v", nodes[0].Cards)
	}
	d := desired("t", "large", withMemory(9800))
	b.apply(d)
	st := b.until(d, "held", func(s delivery.Status) bool { return s.Reason == delivery.NoFragmentFits })
	if want := "largest fragment 9700 MiB < 9800 MiB on node node-1 (2 cards, 16.6 GiB free in total)"; !strings.HasSuffix(st.Message, want) {
		t.Fatalf("message %q, want %q", st.Message, want)
	}
}

func TestOldMeasurementsCountForNothing(t *testing.T) {
	t.Parallel()
	now := noon
	target := &Target{
		cfg:     Config{Node: "n", Reserve: placement.DefaultReserve(), Clock: func() time.Time { return now }},
		cards:   []device.Card{{UUID: "GPU-a", Total: 20000, Used: 12600, Healthy: true}},
		samples: map[string]placement.Sample{"GPU-a": {UsedMiB: 12600, AllocatedMiB: 2000, At: noon}},
	}
	for after, want := range map[time.Duration]struct {
		mib   int64
		stale bool
	}{0: {10000, false}, placement.MeasuredFor: {10000, false}, placement.MeasuredFor + 1: {0, true}} {
		now = noon.Add(after)
		if c := target.placementNode().Cards[0]; c.UnaccountedMiB != want.mib || c.Stale != want.stale {
			t.Errorf("after %s: %d MiB are unaccounted, stale %v", after, c.UnaccountedMiB, c.Stale)
		}
	}
}
