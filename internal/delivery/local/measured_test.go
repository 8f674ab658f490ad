package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/engine"
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

// What a sleeping engine gave back is free once a measurement from after its
// word shows it, less what such engines leave on a card.
func TestASleepersMemoryIsFreeOnceThatShows(t *testing.T) {
	t.Parallel()
	const residue, mib, total = 1024, 8000, 20000
	target := &Target{
		cfg:   Config{Node: "n", Reserve: placement.DefaultReserve(), Clock: func() time.Time { return noon }},
		cards: []device.Card{{UUID: "GPU-a", Total: total, Healthy: true}}, wake: make(chan struct{}, 1),
	}
	card := delivery.Card{UUID: "GPU-a", MiB: mib}
	fresh := func() *run {
		return &run{sleep: Dozing, sleeper: &engine.Sleeper{ResidueMiB: residue}, full: []delivery.Card{card}, cards: []delivery.Card{card}, readyAt: noon}
	}
	sample := func(used int64, after time.Duration) map[string]placement.Sample {
		return map[string]placement.Sample{"GPU-a": {UsedMiB: used, AllocatedMiB: mib, At: noon.Add(after)}}
	}
	for name, c := range map[string]struct {
		samples   map[string]placement.Sample
		strangers int64
		free      bool
	}{
		"from before its word": {sample(500, -time.Second), 0, false},
		"still in use":         {sample(mib, time.Millisecond), 0, false},
		"free":                 {sample(900, time.Millisecond), 0, true},
		"a stranger's stays":   {sample(5000, time.Millisecond), 4000, true},
		"a stranger's is none": {sample(5000+mib-residue, time.Millisecond), 4000, false},
		"not measured at all":  {map[string]placement.Sample{}, 0, true},
		"not measured lately":  {sample(500, -time.Minute), 0, false},
	} {
		target.samples = c.samples
		r := fresh()
		if got := target.giveBack(r, noon, map[string]int64{"GPU-a": c.strangers}); got != c.free {
			t.Errorf("%s: given back %v, want %v", name, got, c.free)
		}
		held := int64(mib)
		if c.free {
			held = residue
		}
		if len(r.cards) != 1 || r.cards[0].MiB != held || (r.sleep == Asleep) != c.free {
			t.Errorf("%s: it holds %+v", name, r.cards)
		}
	}
}

// A card that still shows the memory in use keeps it taken, whatever the
// engine says.
func TestAnEngineThatSleepsAndKeepsItsMemory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "cards.json")
	uses := func(mib int) {
		t.Helper()
		text := fmt.Sprintf(`[{"index":0,"totalMiB":24576,"usedMiB":%d,"healthy":true}]`, mib)
		if err := os.WriteFile(file+".next", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".next", file); err != nil {
			t.Fatal(err)
		}
	}
	uses(0)
	inv, err := device.FromFile("node-1", file)
	if err != nil {
		t.Fatal(err)
	}
	inv.Simulated = false
	b := setup(t, withHostMemory(100_000), func(c *Config) { c.Inventory = inv })
	d := desired("team-a", "measured", between(0, 1), withMemory(8000), asleep(1))
	b.apply(d)
	r := b.untilReady(d).Replicas[0]
	uses(8000)
	eventually(t, func() bool { n, err := b.target.Nodes(); return err == nil && n[0].Cards[0].Used == 8000 }, func() string { return "the use was never measured" })
	if err := b.scale(d.Ref, 1, 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return engineSays(t, r.Address, "modeldock_simulated_asleep") == "1" }, func() string { return "the engine never slept" })
	if st := b.status(d); st.Sleeping() != 0 || st.Processes() != 1 || b.held() != 8000 {
		t.Errorf("its card shows the memory in use: %d sleep, %d MiB held: %+v", st.Sleeping(), b.held(), st.Replicas)
	}
	uses(100)
	b.sleeps(d, 1)
	if b.held() != 0 {
		t.Errorf("it shows that it is free: %d MiB held", b.held())
	}
}
