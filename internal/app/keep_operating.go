package app

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// errOperatorEnded marks an operator that another try may help: the API server
// was away when it began, or for longer than its Lease, or another controller
// has taken that.
var errOperatorEnded = errors.New("the operator ended")

// operatePause is between two operators of one process.
const operatePause = time.Second

// keepOperating starts the operator again whenever it ends: ledger, API and
// gateways' snapshots of this process have nothing to do with its Lease, and go
// on while the API server is away. What an ending operator still wrote does no
// harm: every write names the UID that it is meant for, and is decided anew. One
// that is not configured rightly ends the controller.
func keepOperating(ctx context.Context, log *slog.Logger, pause time.Duration, operate func(context.Context) error) error {
	for {
		err := operate(ctx)
		if ctx.Err() != nil || !errors.Is(err, errOperatorEnded) {
			return err
		}
		log.Warn("the operator ended and starts again; everything else goes on", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}
