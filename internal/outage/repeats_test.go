package outage_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/outage"
)

// One line per minute and kind, with the number of those left out.
func TestRepeatsAreCounted(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	now := time.Unix(100, 0)
	r := outage.NewRepeats(slog.New(slog.NewTextHandler(&text, nil)), func() time.Time { return now })
	for range 1000 {
		r.Warn("team-a/m1", "replica broke off", "id", "one")
	}
	r.Warn("team-a/m2", "replica broke off", "id", "two")
	if n := strings.Count(text.String(), "\n"); n != 2 || strings.Contains(text.String(), "more=") {
		t.Fatalf("%d lines in the first minute:\n%s", n, text.String())
	}
	now = now.Add(time.Minute)
	r.Warn("team-a/m1", "replica broke off", "id", "three")
	if said := text.String(); strings.Count(said, "\n") != 3 || !strings.Contains(said, "id=three more=999") {
		t.Errorf("a minute later:\n%s", said)
	}
	// However many kinds there are, what is kept of them is bounded, and so are
	// the lines of a minute.
	for i := range 5000 {
		r.Warn(fmt.Sprint("kind ", i), "replica broke off")
	}
	if n := strings.Count(text.String(), "\n"); n > 1100 {
		t.Errorf("%d lines of 5000 kinds in one minute", n)
	}
}
