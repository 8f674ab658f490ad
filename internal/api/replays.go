package api

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"modeldock.io/internal/elastic/simulate"
)

const (
	// maxReplays are the simulations at once, each of which keeps a core busy.
	maxReplays = 2
	// maxSteps bounds how often the policies of one simulation are asked.
	maxSteps = 1_000_000
)

// beginReplay returns how a simulation ends, or a problem.
func (s *Server) beginReplay(caller string) (end func(), err error) {
	end, err = s.replaying.take(caller)
	switch {
	case errors.Is(err, errOwnTaken):
		return nil, tooManyCalls("a simulation of this caller is under way; try again when it is over")
	case errors.Is(err, errAllTaken):
		return nil, &problem{http.StatusServiceUnavailable, codeUnavailable, fmt.Sprintf("%d simulations of others are under way; try again when one is over", maxReplays), ""}
	}
	return end, nil
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
