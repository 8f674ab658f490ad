package api

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/outage"
)

// away is a ledger that answers nothing while it is told to.
type away struct {
	budget.Ledger
	down atomic.Bool
}

func (a *away) Key(ctx context.Context, id string) (budget.APIKey, error) {
	if a.down.Load() {
		return budget.APIKey{}, budget.ErrUnavailable
	}
	return a.Ledger.Key(ctx, id)
}

// said is a log that is read while it is written.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// An outage of the ledger is two lines of the log, however many are refused by
// it: its beginning, and its end with their number.
func TestAnOutageIsTwoLines(t *testing.T) {
	t.Parallel()
	var log said
	ledger := &away{}
	b := setup(t, func(c *Config) {
		ledger.Ledger = c.Ledger
		c.Ledger, c.Logger = ledger, slog.New(slog.NewTextHandler(&log, nil))
	})
	b.ask(b.a, "GET", "/requests", "").is(200)
	ledger.down.Store(true)
	for range 20 {
		b.ask(b.a, "GET", "/requests", "").fails(503, "unavailable")
		b.ask("", "POST", "/session", `{"key":"`+b.a+`"}`).fails(503, "unavailable")
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "ledger unavailable") {
		t.Errorf("forty refusals are told as:\n%s", text)
	}
	ledger.down.Store(false)
	b.ask(b.a, "GET", "/requests", "").is(200) // it might fail again
	b.skew.Add(int64(outage.Quiet + time.Second))
	for range 5 {
		b.ask(b.a, "GET", "/requests", "").is(200)
	}
	if text := log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, `msg="ledger unavailable: over" failed=40`) {
		t.Errorf("after it, the log is:\n%s", text)
	}
}
