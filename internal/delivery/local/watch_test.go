package local

import (
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/delivery"
)

// A model that stops answering is first not used any more, then replaced.
func TestMissedHealthChecks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := &watcher{target: b.target, run: &run{phase: delivery.PhaseReady}, loaded: true}
	for i := 1; i <= missesToStop; i++ {
		w.missed("GET /health answers 500")
		if unused := w.run.phase == delivery.PhaseLoading; unused != (i >= missesToUnused) {
			t.Fatalf("after %d misses the phase is %s", i, w.run.phase)
		}
		if over := w.verdict.reason == delivery.CrashLooping; over != (i >= missesToStop) {
			t.Fatalf("after %d misses the verdict is %+v", i, w.verdict)
		}
	}
	if !strings.Contains(w.verdict.message, "GET /health answers 500") {
		t.Fatalf("verdict %q", w.verdict.message)
	}
}

func TestLoadingTooLong(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := &watcher{target: b.target, run: &run{}}
	w.plan.LoadTimeout = time.Minute
	w.deadAt = b.target.now().Add(time.Minute)
	w.missed("nothing listens yet")
	if w.verdict.reason != "" {
		t.Fatalf("given up at once: %+v", w.verdict)
	}
	w.deadAt = b.target.now().Add(-time.Second)
	w.missed("nothing listens yet")
	if w.verdict.reason != delivery.ProgressDeadlineExceeded || !strings.Contains(w.verdict.message, "1m0s") {
		t.Fatalf("verdict %+v", w.verdict)
	}
}

func TestBackoffDoublesToAMinute(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 4: 8 * time.Second, 7: time.Minute, 1000: time.Minute} {
		if got := backoff(failures); got != want {
			t.Errorf("after %d failures %s, want %s", failures, got, want)
		}
	}
}
