package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/delivery/operator"
	"modeldock.io/internal/modelspec"
)

// Limits of the operator's client: a thousand ModelServices may begin at once.
const (
	operatorQPS   = 500
	operatorBurst = 1000
)

// operatorPause is how long an operator that ended waits before it begins anew.
const operatorPause = time.Second

var errOperatorStuck = errors.New("the operator does not end although its Lease is lost")

// operate runs the operator, and what runs beside it, whenever this process
// holds the Lease, until ctx ends. One that loses it, as happens when the API
// server is away, ends with everything it was about to write and stands for the
// Lease again: ledger and management API go on meanwhile. Only one that does
// not end takes the controller along.
func operate(ctx context.Context, o ControllerOptions, w besides, listen net.Addr, log *slog.Logger) error {
	cfg, err := o.Cluster.rest()
	if err != nil {
		return err
	}
	ctrl.SetLogger(logr.FromSlogHandler(log.Handler())) // what has no logger of its own would complain with a stack trace
	lock, err := leaseFor(cfg, o.Cluster.System, holder(listen))
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		why := holding(ctx, lock, operatorTimes(), func(ctx context.Context) error { return operateOnce(ctx, o, w, cfg, log) })
		if errors.Is(why, errOperatorStuck) {
			return why
		}
		if ctx.Err() == nil {
			log.Warn("the operator ended; it begins anew", "why", why, "in", operatorPause)
		}
		select {
		case <-ctx.Done():
		case <-time.After(operatorPause):
		}
	}
	return nil
}

// spareCard tells whether one more replica of an object would fit; nil: nobody
// knows.
type spareCard func(*v1alpha1.ModelService) bool

// besides is what the operator is given, and what runs while it does.
type besides struct {
	spare    spareCard
	informer newInformer
	scale    func(context.Context)
}

// newInformer makes an informer of one kind; see controller-runtime's options
// of caches.
type newInformer func(cache.ListerWatcher, runtime.Object, time.Duration, cache.Indexers) cache.SharedIndexInformer

// operateOnce runs an operator until ctx ends, which is when the Lease does.
func operateOnce(ctx context.Context, o ControllerOptions, w besides, cfg *rest.Config, log *slog.Logger) error {
	opts, err := operator.ManagerOptions(o.Cluster.Namespace)
	if err != nil {
		return err
	}
	opts.Cache.NewInformer = w.informer
	opts.Controller.SkipNameValidation = new(true) // one may run after another
	opts.Logger = logr.FromSlogHandler(log.Handler())
	mgr, err := ctrl.NewManager(operator.RestConfig(cfg, operatorQPS, operatorBurst), opts)
	if err != nil {
		return fmt.Errorf("build the operator: %w", err)
	}
	how := operator.Options{LedgerLetsGo: true, Resync: o.ReconcileEvery, DrainDelay: o.Drain.Delay, LongestStream: o.Drain.LongestStream, GPU: o.GPU.operator(), SpareCard: w.spare}
	if o.Image != "" {
		how.Images = map[modelspec.Engine]operator.Image{modelspec.EngineSimulated: {Reference: o.Image, Entrypoint: true}}
	}
	if err := operator.Setup(ctx, mgr, how); err != nil {
		return err
	}
	// Whoever operates scales: one process at a time writes counts.
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { w.scale(ctx); return nil })); err != nil {
		return fmt.Errorf("add the scaler to the operator: %w", err)
	}
	err = mgr.Start(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", errOperatorStuck, err)
	}
	if err != nil {
		return fmt.Errorf("run the operator: %w", err)
	}
	if ctx.Err() == nil {
		return errors.New("it ended by itself")
	}
	return nil
}

// operatorMetrics are what the operator's library counts of rounds, queues and
// calls. Its registry is one per process and has the process's own figures,
// too, which this process shows already.
func operatorMetrics() ([]*dto.MetricFamily, error) {
	all, err := ctrlmetrics.Registry.Gather()
	return slices.DeleteFunc(all, func(f *dto.MetricFamily) bool {
		return !slices.ContainsFunc([]string{"controller_runtime_", "workqueue_", "rest_client_", "leader_election_"}, func(prefix string) bool {
			return strings.HasPrefix(f.GetName(), prefix)
		})
	}), err
}
