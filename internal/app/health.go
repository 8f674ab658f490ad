package app

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/api/wiretime"
)

// health remembers what each part last said of itself.
type health struct {
	clock func() time.Time
	drift prometheus.Gauge
	// verified is when the latest verification ended, in Unix seconds: no
	// violations are good news only while it is young.
	verified prometheus.Gauge

	mu      sync.Mutex
	serving bool
	states  map[string]partState
}

type partState struct {
	err   string
	slow  bool // the latest answer did not come in time, after one that was good
	since time.Time
}

func newHealth(clock func() time.Time) *health {
	return &health{
		clock:  clock,
		states: map[string]partState{},
		drift: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "modeldock_ledger_violations", Help: "Broken invariants found by the latest verification; 0 is the only good value.",
		}),
		verified: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "modeldock_ledger_verified_timestamp_seconds", Help: "When the latest verification ended; it is made every minute.",
		}),
	}
}

func (h *health) ready(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.serving = on
}

// report notes a part's latest result; the end of ctx is not a fault of its.
// One answer that took too long is no outage: it counts once the next is no
// better.
func (h *health) report(ctx context.Context, part string, err error) {
	if err != nil && ctx.Err() != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	text := ""
	if err != nil {
		text = err.Error()
	}
	old, known := h.states[part]
	if known && old.err == "" && !old.slow && errors.Is(err, context.DeadlineExceeded) {
		old.slow = true
		h.states[part] = old
		return
	}
	if old.slow = false; known && old.err == text {
		h.states[part] = old
	} else {
		h.states[part] = partState{err: text, since: h.clock()}
	}
}

// wordless stands where the words are not for the caller.
const wordless = "not well; admins (GET /diagnostics) and callers on this machine learn why"

// verdict tells whether requests should be sent here, and why not: which part,
// and with inWords also what it says.
func (h *health) verdict(inWords bool) (bool, []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	reasons := []string{}
	if !h.serving {
		reasons = append(reasons, "starting or stopping")
	}
	for part, s := range h.states {
		switch {
		case s.err == "":
		case inWords:
			reasons = append(reasons, part+": "+s.err)
		default:
			reasons = append(reasons, part+": "+wordless)
		}
	}
	slices.Sort(reasons)
	return len(reasons) == 0, reasons
}

func (h *health) parts() []openapi.DiagnosticPart {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]openapi.DiagnosticPart, 0, len(h.states))
	for part, s := range h.states {
		d := openapi.DiagnosticPart{Name: part, Status: openapi.DiagnosticPartStatusOk, Since: wiretime.Time(s.since)}
		if s.err != "" {
			d.Status, d.Reason = openapi.DiagnosticPartStatusDegraded, &s.err
		}
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b openapi.DiagnosticPart) int { return strings.Compare(a.Name, b.Name) })
	return out
}
