package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"modeldock.io/internal/api"
	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/console"
	"modeldock.io/internal/delivery/remote"
	"modeldock.io/internal/traffic/gateway"
)

// Names of what a controller runs.
const (
	partAPI     = "api"     // the management API and the console
	partAdmit   = "admit"   // admission, expiry, verification
	partDeliver = "deliver" // the relay of intents, readiness, credits
)

// ControllerParts are all of them.
func ControllerParts() []string { return []string{partAPI, partAdmit, partDeliver} }

// ControllerOptions are the flags of `modeldock controller`.
type ControllerOptions struct {
	Listen    string
	Machine   string   // data directory of the `modeldock up` that runs the models
	MySQLDSN  string   // see sqlledger.OpenMySQL. A secret
	Parts     []string // of ControllerParts
	Insecure  bool     // listen beyond loopback without TLS
	HeadWait  time.Duration
	StopGrace time.Duration
}

// DefaultControllerOptions are the defaults of every flag.
func DefaultControllerOptions() ControllerOptions {
	return ControllerOptions{
		Listen: "127.0.0.1:8081", Machine: "./data", Parts: ControllerParts(),
		HeadWait: budget.DefaultHeadWait, StopGrace: 10 * time.Second,
	}
}

// Validate returns every error at once, each saying what to write instead.
func (o ControllerOptions) Validate() error {
	errs := []error{validateListen(o.Listen, o.Insecure)}
	if o.MySQLDSN == "" {
		errs = append(errs, errNoDSN)
	}
	if o.Machine == "" {
		errs = append(errs, errors.New("--machine must name the data directory of the `modeldock up` that runs the models"))
	}
	if len(o.Parts) == 0 {
		errs = append(errs, fmt.Errorf("--parts must name at least one of %s", strings.Join(ControllerParts(), ", ")))
	}
	for _, p := range o.Parts {
		if !slices.Contains(ControllerParts(), p) {
			errs = append(errs, fmt.Errorf("--parts may name %s; got %q", strings.Join(ControllerParts(), ", "), p))
		}
	}
	if o.HeadWait < 0 || o.StopGrace < 0 {
		errs = append(errs, errors.New("--head-wait and --stop-grace must not be negative"))
	}
	return errors.Join(errs...)
}

// controller is a process of the control plane beside others on one database.
type controller struct {
	*control
	opts    ControllerOptions
	machine *remote.Client
}

// Controller runs parts of the control plane until ctx ends. started is
// called once, with its URL, when it answers.
func Controller(ctx context.Context, opts ControllerOptions, out io.Writer, started func(url string)) error {
	if err := opts.Validate(); err != nil {
		return err
	}
	c := &controller{control: newControl(out), opts: opts}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", opts.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w: stop what uses it, or choose another --listen", opts.Listen, err)
	}
	defer func() { _ = listener.Close() }()
	if err := c.build(ctx); err != nil {
		return err
	}
	defer func() { _ = c.machine.Close() }()
	return errors.Join(c.serve(ctx, listener, out, started), c.ledger.Close())
}

func (c *controller) build(ctx context.Context) (err error) {
	if c.machine, err = remote.NewClient(c.opts.Machine); err != nil {
		return err
	}
	if c.ledger, err = c.openShared(ctx, c.opts.MySQLDSN, c.opts.HeadWait); err != nil {
		return errors.Join(err, c.machine.Close())
	}
	incarnation, _, err := c.ledger.Identity(ctx)
	if err != nil {
		return errors.Join(fmt.Errorf("read the ledger's identity: %w", err), c.ledger.Close(), c.machine.Close())
	}
	c.stamps = machineStamps{c.machine}
	c.buildAccounts(c.machine, incarnation)
	c.doubt.Halt("it is not known yet whether the ledger is older than what was delivered")
	cfg := c.apiConfig()
	views := &trafficViews{sources: []viewSource{machineSource(c.machine)}, clock: c.clock, log: c.log}
	cfg.Fleet, cfg.Load, cfg.OnLoopback = machineFleet{c.machine}, views, onLoopback(c.opts.Listen)
	cfg.Restorer, cfg.SpoolDir = restorer{c.control, nil}, os.TempDir()
	c.api = api.New(cfg)
	if err = c.registerMetrics(); err != nil {
		return errors.Join(err, c.ledger.Close(), c.machine.Close())
	}
	return nil
}

func (c *controller) runs(part string) bool { return slices.Contains(c.opts.Parts, part) }

func (c *controller) serve(ctx context.Context, listener net.Listener, out io.Writer, started func(url string)) error {
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	c.run(func() { c.machine.Watch(work, c.targetChanged) })
	c.startAccounts(work, parts{admit: c.runs(partAdmit), deliver: c.runs(partDeliver)})
	server := gateway.NewServer(c.handler())
	server.ErrorLog = log.New(logWriter{c.log}, "", 0)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	c.health.ready(true)
	url := "http://" + reachable(listener.Addr())
	_, _ = fmt.Fprintf(out, "ModelDock controller is ready: %s\n  runs      %s\n  machine   %s\n", url, strings.Join(c.opts.Parts, ", "), c.opts.Machine)
	started(url)
	var err error
	select {
	case <-ctx.Done():
		c.log.Info("stopping: no new requests; running ones may finish", "grace", c.opts.StopGrace)
	case err = <-failed:
	}
	c.health.ready(false)
	c.hub.Close()
	drain, cancel := context.WithTimeout(context.Background(), c.opts.StopGrace)
	defer cancel()
	if server.Shutdown(drain) != nil {
		_ = server.Close()
	}
	stopWork()
	c.loops.Wait()
	c.log.Info("stopped")
	return err
}

// handler serves health and metrics, and the management API where it runs.
func (c *controller) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", c.healthz)
	mux.HandleFunc("/readyz", c.readyz)
	mux.Handle("/metrics", loopbackOnly(promhttp.HandlerFor(c.registry, promhttp.HandlerOpts{})))
	elsewhere := func(message string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			answerJSON(w, r, http.StatusNotFound, openapi.Error{Error: openapi.ErrorBody{Code: "not_found", Message: message}})
		}
	}
	mux.HandleFunc("/v1/", elsewhere("a controller serves no inference: call the gateway of `modeldock up`"))
	if !c.runs(partAPI) {
		mux.HandleFunc("/", elsewhere("this controller runs "+strings.Join(c.opts.Parts, ", ")+" and no management API"))
		return mux
	}
	mux.Handle("/console/", console.Handler())
	mux.Handle("/", c.api.Handler())
	return onePathMap(mux, c.api.Handler(), nil)
}
