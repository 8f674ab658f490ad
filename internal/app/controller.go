package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"modeldock.io/internal/api"
	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/console"
	"modeldock.io/internal/elastic/scaler"
	"modeldock.io/internal/traffic/feed"
	"modeldock.io/internal/traffic/gateway"
	"modeldock.io/internal/traffic/spans"
)

// controller is a process of the control plane beside others on one database.
type controller struct {
	*control
	opts      ControllerOptions
	world     world
	directory *directory   // of what gateways decide by; nil unless they ask here
	feed      *feed.Server // the same
	tls       *tls.Config  // nil: none
	spans     spans.Sender // of requests' traces
	forwarded http.Handler // of console users' calls
	scaler    *scaler.Scaler
}

// Controller runs parts of the control plane until ctx ends. started is
// called once, with its URL, when it answers.
func Controller(ctx context.Context, opts ControllerOptions, out io.Writer, started func(url string)) error {
	if err := opts.Validate(); err != nil {
		return err
	}
	collectSeldom()
	c := &controller{control: newControl(out), opts: opts}
	var err error
	if c.tls, err = opts.TLS.config(c.clock, c.log); err != nil {
		return err
	}
	if c.forwarded, err = c.forward(); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", opts.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w: stop what uses it, or choose another --listen", opts.Listen, err)
	}
	defer func() { _ = listener.Close() }()
	link, closeLink, err := listenIfAsked(ctx, opts.Gateways.Listen, "--gateway-listen")
	if err != nil {
		return err
	}
	defer closeLink()
	ops, closeOps, err := listenIfAsked(ctx, opts.OpsListen, "--ops-listen")
	if err != nil {
		return err
	}
	defer closeOps()
	metrics, closeMetrics, err := listenIfAsked(ctx, opts.MetricsAPIListen, "--metrics-api-listen")
	if err != nil {
		return err
	}
	defer closeMetrics()
	if c.ledger, err = c.openShared(ctx, opts.MySQLDSN, opts.HeadWait); err != nil {
		return err
	}
	if err := c.build(ctx); err != nil {
		return errors.Join(err, c.ledger.Close())
	}
	return errors.Join(c.serve(ctx, listeners{listener, link, ops, metrics}, out, started), c.world.close(), c.ledger.Close())
}

// listenIfAsked is nil without an address.
func listenIfAsked(ctx context.Context, address, flag string) (l net.Listener, end func(), err error) {
	if address == "" {
		return nil, func() {}, nil
	}
	if l, err = new(net.ListenConfig).Listen(ctx, "tcp", address); err != nil {
		return nil, nil, fmt.Errorf("listen on %s: %w: stop what uses it, or choose another %s", address, err, flag)
	}
	return l, func() { _ = l.Close() }, nil
}

func (c *controller) build(ctx context.Context) error {
	incarnation, _, err := c.ledger.Identity(ctx)
	if err != nil {
		return fmt.Errorf("read the ledger's identity: %w", err)
	}
	if c.opts.Cluster.Enabled {
		c.world, err = newClusterWorld(c.opts.Cluster, c.opts.GPU, incarnation, c.clock, c.log, c.registry)
	} else {
		c.world, err = newMachineWorld(c.opts.Machine)
	}
	if err != nil {
		return err
	}
	c.stamps, c.reconcileEvery = c.world.stamps(), c.opts.ReconcileEvery
	c.buildAccounts(c.world.target(), incarnation, c.world.lease())
	c.doubt.Halt("it is not known yet whether the ledger is older than what was delivered; whoever has the objects must answer first: " + c.world.where())
	c.health.report(ctx, "restore", c.stillStanding())
	if err := c.buildScaler(); err != nil {
		return err
	}
	if link := c.opts.Gateways; link.Listen != "" {
		c.directory = newDirectory(c.ledger, c.target, c.clock, c.log)
		c.directory.onDemand = true
		if c.spans, err = spans.OpenAs(ctx, "modeldock-controller", os.Getenv, c.log); err != nil {
			return err
		}
		sink := &journeys{spans: c.spans, ledger: c.ledger, log: c.log}
		c.feed = feed.NewServer(feed.ServerConfig{
			Token: link.Token, Asked: c.directory.question, Snapshot: c.directory.taken, Refresh: c.directory.refreshSince,
			Store: sink.put, Wake: c.scaler.Wake, Clock: c.clock, Logger: c.log,
		})
		c.directory.changed = c.feed.Changed
	}
	cfg := c.apiConfig()
	views := &trafficViews{sources: c.world.views(), clock: c.clock, log: c.log}
	for _, url := range c.opts.Gateways.Ops {
		views.sources = append(views.sources, gatewaySource(url, c.opts.Gateways.Token))
	}
	cfg.Fleet, cfg.Load, cfg.OnLoopback = c.world.fleet(), views, onLoopback(c.opts.Listen)
	cfg.Scaling, cfg.Bounds = c.scaler, c.opts.Bounds
	cfg.NoSleep, cfg.NoAutoscaler = c.world.noSleep(), c.world.noAutoscaler()
	cfg.Restorer, cfg.SpoolDir = restorer{c.control, nil}, os.TempDir()
	c.api = api.New(cfg)
	return c.registerMetrics(connectionBounds(c.opts.Connections, c.opts.Proxies))
}

func (c *controller) runs(part string) bool { return slices.Contains(c.opts.Parts, part) }

// listeners are what a controller answers on; nil: not asked for.
type listeners struct{ main, link, ops, metrics net.Listener }

// serve starts the loops and the listeners and, when ctx ends or one of them
// fails, stops them again.
func (c *controller) serve(ctx context.Context, on listeners, out io.Writer, started func(url string)) error {
	autoscalers, err := c.metricsAPI(on.metrics)
	if err != nil {
		return err
	}
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	failed := make(chan error, 8)
	c.start(work, on.main.Addr(), failed)
	server := gateway.NewServer(c.handler())
	server.ErrorLog, server.Connections = complaintsTo(c.log, c.clock), c.callers
	go func() { failed <- serveHTTP(server, on.main, c.tls) }()
	side := sideServer(nil)
	if c.feed != nil {
		side.Handler = c.feed.Handler()
		go func() { failed <- side.Serve(on.link) }()
	}
	watched := sideServer(opsMux(healthz, c.readyz, c.metrics()))
	if on.ops != nil {
		go func() { failed <- watched.Serve(on.ops) }()
	}
	if autoscalers != nil {
		defer func() { _ = autoscalers.Close() }()
		go func() { failed <- autoscalers.ServeTLS(on.metrics, "", "") }()
	}
	c.health.ready(true)
	url := urlOf(on.main, c.tls)
	c.banner(out, url, on.link)
	started(url)
	select {
	case <-ctx.Done():
		c.log.Info("stopping: no new requests; running ones may finish", "grace", c.opts.StopGrace)
	case err = <-failed:
	}
	c.health.ready(false)
	c.hub.Close()
	stopServing(server, c.opts.StopGrace, c.log)
	_ = side.Close()
	stopWork()
	c.loops.Wait()
	_ = watched.Close()
	last, cancelLast := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancelLast()
	err = errors.Join(err, c.spans.Close(last), c.api.SumUpSignIns(last, true))
	c.log.Info("stopped")
	return err
}

// start runs what was asked for; what cannot go on says so to failed.
func (c *controller) start(ctx context.Context, listen net.Addr, failed chan<- error) {
	watch := func(f func() error) {
		c.run(func() {
			if err := f(); err != nil {
				failed <- err
			}
		})
	}
	watch(func() error { return c.world.follow(ctx, c.targetChanged) })
	c.startAccounts(ctx, parts{admit: c.runs(partAdmit), deliver: c.runs(partDeliver)})
	if c.opts.Cluster.Enabled && c.runs(partOperate) {
		moved, seen := c.moved.listen(), c.observed.listen()
		wake := merge(ctx, moved, seen)
		w := besides{spare: c.world.spare(), informer: c.world.informer(), scale: func(ctx context.Context) { c.scaler.Run(ctx, wake) }}
		watch(func() error { return operate(ctx, c.opts, w, listen, c.log) })
	}
	if c.runs(partAPI) {
		c.run(func() { c.every(ctx, "count sign-ins", pruneEvery, c.countSignIns) })
	}
	if c.directory != nil {
		moved, seen := c.moved.listen(), c.observed.listen()
		c.run(func() { c.directory.run(ctx, merge(ctx, moved, seen)) })
	}
}

func (c *controller) banner(out io.Writer, url string, link net.Listener) {
	_, _ = fmt.Fprintf(out, "ModelDock controller is ready: %s\n  runs      %s\n  models    %s\n", url, strings.Join(c.opts.Parts, ", "), c.world.where())
	if link != nil {
		_, _ = fmt.Fprintf(out, "  gateways  http://%s\n", reachable(link.Addr()))
	}
}

// metrics are this process's own, and the operator's.
func (c *controller) metrics() prometheus.Gatherer {
	return prometheus.Gatherers{c.registry, prometheus.GathererFunc(operatorMetrics)}
}

// handler serves health and metrics, and the management API where it runs.
func (c *controller) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/healthz", gateway.WithoutBody(http.HandlerFunc(healthz)))
	mux.Handle("/readyz", gateway.WithoutBody(http.HandlerFunc(c.readyzForAll)))
	c.metricsOn(mux, c.metrics(), c.opts.OpsListen)
	if !c.runs(partAPI) {
		mux.Handle("/", notHere("this controller runs "+strings.Join(c.opts.Parts, ", ")+" and no management API"))
		return mux
	}
	mux.Handle("/v1/", c.forwarded)
	mux.Handle("/console/", gateway.WithoutBody(console.Handler()))
	mux.Handle("/", c.api.Handler())
	return onePathMap(mux, c.api.Handler(), nil)
}

func notHere(message string) http.Handler {
	return gateway.WithoutBody(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answerJSON(w, r, http.StatusNotFound, openapi.Error{Error: openapi.ErrorBody{Code: "not_found", Message: message}})
	}))
}
