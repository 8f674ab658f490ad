package app

import (
	"context"
	"fmt"
	"log/slog"

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

// operate runs the operator while this process holds the Lease, and returns
// errOperatorEnded when it has lost it, or could not begin because the API
// server is away.
func operate(ctx context.Context, opts ControllerOptions, log *slog.Logger) error {
	c := opts.Cluster
	cfg, err := c.rest()
	if err != nil {
		return err
	}
	managed, err := operator.ManagerOptions(c.Namespace)
	if err != nil {
		return err
	}
	managed.LeaderElection, managed.LeaderElectionID, managed.LeaderElectionNamespace = true, operatorLease, c.System
	managed.LeaderElectionReleaseOnCancel = true
	managed.Controller.SkipNameValidation = new(true) // one may run after another
	managed.Logger = logr.FromSlogHandler(log.Handler())
	ctrl.SetLogger(managed.Logger) // what has no logger of its own would complain with a stack trace
	mgr, err := ctrl.NewManager(operator.RestConfig(cfg, operatorQPS, operatorBurst), managed)
	if err != nil {
		return fmt.Errorf("build the operator: %w: %w", errOperatorEnded, err) // it asks the API server what there is
	}
	o := operator.Options{LedgerLetsGo: true, DrainDelay: opts.Drain.Delay, LongestStream: opts.Drain.LongestStream}
	if opts.Image != "" {
		o.Images = map[modelspec.Engine]operator.Image{modelspec.EngineSimulated: {Reference: opts.Image, Entrypoint: true}}
	}
	if err := operator.Setup(ctx, mgr, o); err != nil {
		return fmt.Errorf("set up the operator: %w: %w", errOperatorEnded, err)
	}
	if err := mgr.Start(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("run the operator: %w: %w", errOperatorEnded, err)
	}
	if ctx.Err() == nil {
		return fmt.Errorf("run the operator: %w by itself", errOperatorEnded)
	}
	return nil
}
