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

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"modeldock.io/internal/api"
	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/console"
	"modeldock.io/internal/traffic/feed"
	"modeldock.io/internal/traffic/gateway"
)

// Names of what a controller runs.
const (
	partAPI     = "api"     // the management API and the console
	partAdmit   = "admit"   // admission, expiry, verification
	partDeliver = "deliver" // the relay of intents, readiness, credits
	partOperate = "operate" // on a cluster: ModelServices to Deployments, by whoever holds the Lease
)

// ControllerParts are all of them.
func ControllerParts() []string { return []string{partAPI, partAdmit, partDeliver, partOperate} }

// ControllerOptions are the flags of `modeldock controller`.
type ControllerOptions struct {
	Listen    string
	Machine   string   // data directory of the `modeldock up` that runs the models
	Cluster   Cluster  // or the cluster that does
	Image     string   // of the simulated engine on a cluster; empty: the operator's default
	MySQLDSN  string   // see sqlledger.OpenMySQL. A secret
	Parts     []string // of ControllerParts
	Insecure  bool     // listen beyond loopback without TLS
	HeadWait  time.Duration
	StopGrace time.Duration
	// ReconcileEvery is how often ledger and objects are compared, and on a
	// cluster each object with its children.
	ReconcileEvery time.Duration
	Gateways       GatewayLink
}

// GatewayLink is how a controller and its gateways know each other.
type GatewayLink struct {
	Listen string   // where gateways get their snapshot; empty: nowhere
	Token  string   // that both share. A secret
	URL    string   // where a console user's calls are forwarded to; empty: nowhere
	Ops    []string // URLs of gateways' operations listeners, to be asked what they see
}

func (l GatewayLink) used() bool { return l.Listen != "" || l.URL != "" || len(l.Ops) > 0 }

func (l GatewayLink) validate(insecure bool) error {
	if !l.used() {
		return nil
	}
	errs := []error{validateToken(l.Token)}
	if l.Listen != "" {
		errs = append(errs, validateListen(l.Listen, insecure))
	}
	return errors.Join(errs...)
}

// DefaultControllerOptions are the defaults of every flag.
func DefaultControllerOptions() ControllerOptions {
	return ControllerOptions{
		Listen: "127.0.0.1:8081", Cluster: Cluster{Namespace: DefaultNamespace, System: DefaultSystemNamespace}, Parts: ControllerParts(),
		HeadWait: budget.DefaultHeadWait, StopGrace: 10 * time.Second, ReconcileEvery: time.Minute,
	}
}

// Validate returns every error at once, each saying what to write instead.
func (o ControllerOptions) Validate() error {
	errs := []error{validateListen(o.Listen, o.Insecure), o.Cluster.validate(), o.Gateways.validate(o.Insecure)}
	if o.MySQLDSN == "" {
		errs = append(errs, errNoDSN)
	}
	if (o.Machine == "") == !o.Cluster.Enabled {
		errs = append(errs, errors.New("name where the models run: --machine with the data directory of the `modeldock up` that runs them, or --kubernetes"))
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
	if o.ReconcileEvery < time.Second {
		errs = append(errs, fmt.Errorf("--reconcile-every must be at least 1s; got %s", o.ReconcileEvery))
	}
	return errors.Join(errs...)
}

// controller is a process of the control plane beside others on one database.
type controller struct {
	*control
	opts      ControllerOptions
	world     world
	directory *directory   // of what gateways decide by; nil unless they ask here
	feed      *feed.Server // the same
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
	var link net.Listener
	if opts.Gateways.Listen != "" {
		if link, err = new(net.ListenConfig).Listen(ctx, "tcp", opts.Gateways.Listen); err != nil {
			return fmt.Errorf("listen on %s: %w: stop what uses it, or choose another --gateway-listen", opts.Gateways.Listen, err)
		}
		defer func() { _ = link.Close() }()
	}
	if c.ledger, err = c.openShared(ctx, opts.MySQLDSN, opts.HeadWait); err != nil {
		return err
	}
	if err := c.build(ctx); err != nil {
		return errors.Join(err, c.ledger.Close())
	}
	return errors.Join(c.serve(ctx, listener, link, out, started), c.world.close(), c.ledger.Close())
}

func (c *controller) build(ctx context.Context) error {
	incarnation, _, err := c.ledger.Identity(ctx)
	if err != nil {
		return fmt.Errorf("read the ledger's identity: %w", err)
	}
	if c.opts.Cluster.Enabled {
		c.world, err = newClusterWorld(c.opts.Cluster, incarnation, c.clock, c.log)
	} else {
		c.world, err = newMachineWorld(c.opts.Machine)
	}
	if err != nil {
		return err
	}
	c.stamps, c.reconcileEvery = c.world.stamps(), c.opts.ReconcileEvery
	c.buildAccounts(c.world.target(), incarnation)
	c.doubt.Halt("it is not known yet whether the ledger is older than what was delivered")
	if link := c.opts.Gateways; link.Listen != "" {
		c.directory = newDirectory(c.ledger, c.target, c.clock, c.log)
		c.feed = feed.NewServer(feed.ServerConfig{
			Token: link.Token, Snapshot: c.directory.snapshot, Refresh: c.directory.refreshSince, Store: c.ledger.PutInferences, Clock: c.clock, Logger: c.log,
		})
		c.directory.changed = c.feed.Changed
	}
	cfg := c.apiConfig()
	views := &trafficViews{sources: c.world.views(), clock: c.clock, log: c.log}
	for _, url := range c.opts.Gateways.Ops {
		views.sources = append(views.sources, gatewaySource(url, c.opts.Gateways.Token))
	}
	cfg.Fleet, cfg.Load, cfg.OnLoopback = c.world.fleet(), views, onLoopback(c.opts.Listen)
	cfg.Restorer, cfg.SpoolDir = restorer{c.control, nil}, os.TempDir()
	c.api = api.New(cfg)
	return errors.Join(c.registerMetrics())
}

func (c *controller) runs(part string) bool { return slices.Contains(c.opts.Parts, part) }

func (c *controller) serve(ctx context.Context, listener, link net.Listener, out io.Writer, started func(url string)) error {
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	failed := make(chan error, 4)
	watch := func(f func() error) {
		c.run(func() {
			if err := f(); err != nil {
				failed <- err
			}
		})
	}
	watch(func() error { return c.world.follow(work, c.targetChanged) })
	c.startAccounts(work, parts{admit: c.runs(partAdmit), deliver: c.runs(partDeliver)})
	if c.opts.Cluster.Enabled && c.runs(partOperate) {
		watch(func() error {
			return operate(work, c.opts.Cluster, listener.Addr(), c.opts.Image, c.opts.ReconcileEvery, c.log)
		})
	}
	if c.directory != nil {
		moved, seen := c.moved.listen(), c.observed.listen()
		c.run(func() { c.directory.run(work, merge(work, moved, seen)) })
	}
	server := gateway.NewServer(c.handler())
	server.ErrorLog = log.New(logWriter{c.log}, "", 0)
	go func() { failed <- server.Serve(listener) }()
	side := &http.Server{ReadHeaderTimeout: 10 * time.Second}
	if c.feed != nil {
		side.Handler = c.feed.Handler()
		go func() { failed <- side.Serve(link) }()
	}
	c.health.ready(true)
	url := "http://" + reachable(listener.Addr())
	c.banner(out, url, link)
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
	_ = side.Close()
	stopWork()
	c.loops.Wait()
	c.log.Info("stopped")
	return err
}

func (c *controller) banner(out io.Writer, url string, link net.Listener) {
	_, _ = fmt.Fprintf(out, "ModelDock controller is ready: %s\n  runs      %s\n  models    %s\n", url, strings.Join(c.opts.Parts, ", "), c.world.where())
	if link != nil {
		_, _ = fmt.Fprintf(out, "  gateways  http://%s\n", reachable(link.Addr()))
	}
}

// handler serves health and metrics, and the management API where it runs.
func (c *controller) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", c.healthz)
	mux.HandleFunc("/readyz", c.readyz)
	all := prometheus.Gatherers{c.registry, prometheus.GathererFunc(operatorMetrics)}
	mux.Handle("/metrics", loopbackOnly(promhttp.HandlerFor(all, promhttp.HandlerOpts{})))
	if !c.runs(partAPI) {
		mux.HandleFunc("/", notHere("this controller runs "+strings.Join(c.opts.Parts, ", ")+" and no management API"))
		return mux
	}
	mux.Handle("/v1/", c.forward())
	mux.Handle("/console/", console.Handler())
	mux.Handle("/", c.api.Handler())
	return onePathMap(mux, c.api.Handler(), nil)
}

func notHere(message string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answerJSON(w, r, http.StatusNotFound, openapi.Error{Error: openapi.ErrorBody{Code: "not_found", Message: message}})
	}
}
