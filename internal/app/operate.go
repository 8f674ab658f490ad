package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"modeldock.io/internal/delivery/operator"
	"modeldock.io/internal/modelspec"
)

// operatorLease names the Lease that the operators of all controllers share.
const operatorLease = "modeldock-operator"

// Limits of the operator's client: a thousand ModelServices may begin at once.
const (
	operatorQPS   = 500
	operatorBurst = 1000
)

// operate runs the operator while this process holds the Lease. One that
// loses it ends the controller: what it was about to write is another's now.
func operate(ctx context.Context, c Cluster, image string, resync time.Duration, log *slog.Logger) error {
	cfg, err := c.rest()
	if err != nil {
		return err
	}
	opts, err := operator.ManagerOptions(c.Namespace)
	if err != nil {
		return err
	}
	opts.LeaderElection, opts.LeaderElectionID, opts.LeaderElectionNamespace = true, operatorLease, c.System
	opts.LeaderElectionReleaseOnCancel = true
	opts.Logger = logr.FromSlogHandler(log.Handler())
	mgr, err := ctrl.NewManager(operator.RestConfig(cfg, operatorQPS, operatorBurst), opts)
	if err != nil {
		return fmt.Errorf("build the operator: %w", err)
	}
	o := operator.Options{LedgerLetsGo: true, Resync: resync}
	if image != "" {
		o.Images = map[modelspec.Engine]operator.Image{modelspec.EngineSimulated: {Reference: image, Entrypoint: true}}
	}
	if err := operator.Setup(ctx, mgr, o); err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("run the operator: %w", err)
	}
	if ctx.Err() == nil {
		return errors.New("the operator ended by itself")
	}
	return nil
}
