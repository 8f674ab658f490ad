package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"
)

// A lost Lease starts the operator again and never ends the controller; what
// cannot be built does.
func TestKeepOperating(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	runs := 0
	err := keepOperating(ctx, log, time.Millisecond, func(context.Context) error {
		if runs++; runs == 3 {
			cancel()
			return nil
		}
		return fmt.Errorf("run the operator: %w: lease lost", errOperatorEnded)
	})
	if err != nil || runs != 3 {
		t.Errorf("%d runs, then %v", runs, err)
	}
	broken := errors.New("no kubeconfig")
	if err := keepOperating(t.Context(), log, time.Millisecond, func(context.Context) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("an operator that cannot be built: %v", err)
	}
}
