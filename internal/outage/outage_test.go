package outage_test

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"modeldock.io/internal/outage"
)

// Two lines for each outage: its beginning, and its end with the number of
// calls that failed. One that works between two that fail ends nothing.
func TestAnOutageIsTwoLines(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	now := time.Unix(100, 0)
	l := outage.New(slog.New(slog.NewTextHandler(&text, nil)), func() time.Time { return now }, "ledger unavailable")
	l.Works()
	for range 50 {
		now = now.Add(time.Second)
		l.Failed(errors.New("no route"), "path", "/requests")
		l.Works()
	}
	if n := strings.Count(text.String(), "\n"); n != 1 || !strings.Contains(text.String(), `level=ERROR msg="ledger unavailable" path=/requests error="no route"`) {
		t.Fatalf("%d lines while it lasts:\n%s", n, text.String())
	}
	now = now.Add(outage.Quiet)
	l.Works()
	l.Works()
	if n := strings.Count(text.String(), "\n"); n != 2 || !strings.Contains(text.String(), `level=INFO msg="ledger unavailable: over" failed=50 lasted=49s`) {
		t.Fatalf("%d lines when it is over:\n%s", n, text.String())
	}
	var all sync.WaitGroup
	for range 8 { // the next one is told again
		all.Go(func() { l.Failed(errors.New("again")) })
	}
	all.Wait()
	now = now.Add(time.Hour)
	l.Works()
	if said := text.String(); strings.Count(said, "\n") != 4 || !strings.Contains(said, "failed=8 lasted=0s") {
		t.Errorf("the second outage:\n%s", said)
	}
}
