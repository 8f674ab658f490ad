package delivery

import (
	"context"
	"log/slog"
	"time"

	"modeldock.io/internal/budget"
)

// The points at which a test, or --crash-before, may end the process.
const (
	CrashBeforeCreate = "create" // the intent is leased, the target knows nothing
	CrashBeforeAck    = "ack"    // the target did as it was told, the ledger does not know
	CrashBeforeCredit = "credit" // everything is gone, the slots are still held
)

// Step is one thing that a round did or found.
type Step struct {
	Ref    budget.Ref
	Did    string // "applied", "deleted", "deferred", "credited", "lost", …
	Object budget.Object
	Note   string // with figures, for people
}

// Summary is what one round did, in order of its doing.
type Summary struct {
	Steps []Step
}

// Count is the number of steps of a kind.
func (s Summary) Count(did string) int {
	n := 0
	for _, step := range s.Steps {
		if step.Did == did {
			n++
		}
	}
	return n
}

func (s *Summary) add(ref budget.Ref, did string, obj budget.Object, note string) {
	s.Steps = append(s.Steps, Step{ref, did, obj, note})
}

// keepRounds runs rounds until ctx ends: at once while there is more to do,
// on every wake, and every poll as the safety net.
func keepRounds(ctx context.Context, wake <-chan struct{}, poll time.Duration, log *slog.Logger, round func(context.Context) (more bool, err error)) {
	for ctx.Err() == nil {
		more, err := round(ctx)
		if err != nil && ctx.Err() == nil {
			log.Error("round failed; it is repeated", "err", err, "in", poll)
		}
		if more && err == nil {
			continue
		}
		timer := time.NewTimer(poll)
		select {
		case <-ctx.Done():
		case _, open := <-wake:
			if !open {
				wake = nil
			}
		case <-timer.C:
		}
		timer.Stop()
	}
}
