package api

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"modeldock.io/internal/elastic/simulate"
)

const (
	// maxReplays are the simulations at once, each of which keeps a core busy.
	maxReplays = 2
	// maxSteps bounds how often the policies of one simulation are asked.
	maxSteps = 1_000_000
)

// replays bounds the simulations under way: one of a caller, a few of all.
type replays struct {
	mu      sync.Mutex
	callers map[string]bool
}

func newReplays() *replays { return &replays{callers: map[string]bool{}} }

// begin returns how a simulation ends, or a problem.
func (r *replays) begin(caller string) (end func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.callers[caller]:
		return nil, tooManyCalls("a simulation of this caller is under way; try again when it is over")
	case len(r.callers) >= maxReplays:
		return nil, &problem{http.StatusServiceUnavailable, codeUnavailable, fmt.Sprintf("%d simulations of others are under way; try again when one is over", maxReplays), ""}
	}
	r.callers[caller] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.callers, caller)
	}, nil
}

// checkSteps refuses what would take too long: each policy is asked every
// period of the whole trace, however few requests are in it.
func checkSteps(span time.Duration, policies []simulate.Policy) error {
	steps := int64(0)
	for _, p := range policies {
		steps += int64(span/p.Period) + 1
	}
	if steps <= maxSteps {
		return nil
	}
	return invalid("trace", "%d policies over a trace of %s would be asked %d times in all; at most %d are: compare fewer policies at once, or cut the trace to %s",
		len(policies), span, steps, maxSteps, time.Duration(float64(span)*maxSteps/float64(steps)).Truncate(time.Second))
}
