package agent

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"modeldock.io/internal/device"
)

const patience = 45 * time.Second

// told is a sink and a publisher that remember.
type told struct {
	mu      sync.Mutex
	cards   [][]device.Card
	used    []map[string]int64
	publish error
}

func (s *told) Set(cards []device.Card) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cards = append(s.cards, cards)
}

func (s *told) Publish(_ context.Context, _ time.Time, used map[string]int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.publish == nil {
		s.used = append(s.used, used)
	}
	return s.publish
}

func (s *told) last() (times int, cards []device.Card) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.cards) == 0 {
		return 0, nil
	}
	return len(s.cards), s.cards[len(s.cards)-1]
}

func (s *told) published() []map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never came that %s", what)
		}
	}
}

type bundle struct {
	*told
	agent    *Agent
	registry *prometheus.Registry
}

func setup(t *testing.T, find func(context.Context) (device.Inventory, error)) bundle {
	t.Helper()
	b := bundle{told: &told{}, registry: prometheus.NewRegistry()}
	var err error
	b.agent, err = New(Config{
		Node: "n", Find: find, Sinks: []Sink{b.told}, Publisher: b.told, Clock: time.Now,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Registerer: b.registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b bundle) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); b.agent.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

func TestSinksHearOfChangesOnlyAndTheMeasuredEachTime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cards.json")
	write := func(text string) {
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write(`[{"uuid":"SIM-1","totalMiB":1000,"usedMiB":5,"healthy":true}]`)
	b := setup(t, func(context.Context) (device.Inventory, error) { return device.FromFile("n", path) })
	b.run(t)
	eventually(t, "three samples are published", func() bool { return len(b.published()) >= 3 })
	if times, cards := b.last(); times != 1 || len(cards) != 1 || !cards[0].Healthy || !cards[0].Simulated {
		t.Fatalf("told %d times, last of %+v", times, cards)
	}
	if used := b.published()[0]; used["SIM-1"] != 5 {
		t.Fatalf("published %v", used)
	}
	write(`[{"uuid":"SIM-1","totalMiB":1000,"usedMiB":900,"healthy":false,"reason":"hot"}]`)
	eventually(t, "the sick card is told of", func() bool { times, cards := b.last(); return times == 2 && cards[0].Reason == "hot" })
	expect := `
# HELP modeldock_gpu_memory_used_bytes Memory of a card that is in use, by anybody, as its driver says.
# TYPE modeldock_gpu_memory_used_bytes gauge
modeldock_gpu_memory_used_bytes{card="SIM-1",node="n"} 9.437184e+08
# HELP modeldock_gpu_healthy 1 while a card takes models, else 0.
# TYPE modeldock_gpu_healthy gauge
modeldock_gpu_healthy{card="SIM-1",node="n"} 0
`
	if err := testutil.GatherAndCompare(b.registry, strings.NewReader(expect), "modeldock_gpu_memory_used_bytes", "modeldock_gpu_healthy"); err != nil {
		t.Error(err)
	}
}

func TestANodeWithoutCardsSaysSo(t *testing.T) {
	t.Parallel()
	b := setup(t, func(context.Context) (device.Inventory, error) { return device.Inventory{}, errors.New("no driver") })
	b.run(t)
	eventually(t, "it is told that there is none", func() bool { times, cards := b.last(); return times == 1 && len(cards) == 0 })
}

func TestAnAbsentPublisherIsCounted(t *testing.T) {
	t.Parallel()
	b := setup(t, func(context.Context) (device.Inventory, error) { return device.Simulated("n", "1x100") })
	b.publish = errors.New("away")
	b.run(t)
	eventually(t, "two samples are counted as unpublished", func() bool { return testutil.ToFloat64(b.agent.metrics.unpublished) >= 2 })
	if times, cards := b.last(); times != 1 || len(cards) != 1 {
		t.Fatalf("told %d times, last of %+v", times, cards)
	}
}

func TestTracker(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	a := device.Card{UUID: "A", Index: 0, Total: 100, Used: 7, Healthy: true}
	b := device.Card{UUID: "B", Index: 1, Total: 200, Healthy: true}
	var k tracker
	k.good([]device.Card{b, a}, start)
	if got := k.now(start); len(got) != 2 || got[0] != a || got[1] != b {
		t.Fatalf("two cards became %+v", got)
	}
	// Failures count once the last reading is too old.
	k.failed(errors.New("boom"))
	if got := k.now(start.Add(SilenceLimit)); !got[0].Healthy {
		t.Errorf("a young reading: %+v", got)
	}
	if got := k.now(start.Add(SilenceLimit + 1)); got[0].Healthy || got[1].Healthy || !strings.Contains(got[0].Reason, "boom") {
		t.Errorf("an old reading: %+v", got)
	}
	// A card that is reported no more, and one whose size cannot be read.
	later := start.Add(time.Minute)
	k.good([]device.Card{{UUID: "B", Index: 1, Reason: "lost"}}, later)
	got := k.now(later)
	if len(got) != 2 || got[0].Healthy || !strings.Contains(got[0].Reason, "not report") || got[1].Total != 200 || got[1].Reason != "lost" {
		t.Errorf("one vanished and one unreadable: %+v", got)
	}
	// Back again.
	k.good([]device.Card{a, b}, later)
	if got := k.now(later); got[0] != a || got[1] != b {
		t.Errorf("both back: %+v", got)
	}
	// One of which nothing was ever known.
	k.good([]device.Card{a, b, {UUID: "C", Index: 2}}, later)
	if got := k.now(later); len(got) != 2 {
		t.Errorf("a card of unknown size: %+v", got)
	}
}

func TestSame(t *testing.T) {
	t.Parallel()
	a := []device.Card{{UUID: "A", Total: 1, Used: 1, Healthy: true}}
	if !same(a, []device.Card{{UUID: "A", Total: 1, Used: 2, Healthy: true}}) {
		t.Error("the memory in use is a change")
	}
	for _, b := range [][]device.Card{nil, {{UUID: "A", Total: 1}}, {{UUID: "A", Total: 2, Healthy: true}}, {{UUID: "B", Total: 1, Healthy: true}}} {
		if same(a, b) {
			t.Errorf("%+v is no change", b)
		}
	}
}
