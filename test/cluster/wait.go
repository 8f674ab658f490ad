package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// hopeless marks an error that waiting does not mend.
type hopeless struct{ error }

func (h hopeless) Unwrap() error { return h.error }

func permanent(err error) error { return hopeless{err} }

// waitFor asks until the condition holds, is hopeless, or time is up, and then
// returns what it said last.
func waitFor(ctx context.Context, limit time.Duration, condition func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %s", limit))
	defer cancel()
	for {
		err := condition(ctx)
		if err == nil {
			return nil
		}
		var h hopeless
		if errors.As(err, &h) {
			return h.error
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(pollEvery):
		}
	}
}
