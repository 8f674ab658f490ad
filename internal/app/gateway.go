package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"modeldock.io/internal/delivery/local"
	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/feed"
	"modeldock.io/internal/traffic/gateway"
	"modeldock.io/internal/traffic/route"
	"modeldock.io/internal/traffic/signals"
	"modeldock.io/internal/traffic/waitroom"
)

// GatewayOptions are the flags of `modeldock gateway`.
type GatewayOptions struct {
	Listen    string   // /v1
	OpsListen string   // health, metrics, and what controllers ask
	Control   []string // URLs of controllers' --gateway-listen
	Token     string   // that gateways and controllers share. A secret
	StateDir  string   // keeps the last snapshot
	Endpoints EndpointSource
	Counts    CountOptions
	Insecure  bool
	TLS       CertificateFiles // of Listen
	AccessLog io.Writer        // gets one line for each request; nil for none
	StopGrace time.Duration
	// Connections are the most callers at once.
	Connections int
	Proxies     []string // addresses or networks whose connections are many callers'
	// BodyMiB bounds the memory for bodies of requests.
	BodyMiB int
}

// EndpointSource says where the routable replicas are found: on one machine,
// or on a cluster.
type EndpointSource struct {
	Machine string // data directory of the `modeldock up` that runs the models
	Cluster Cluster
}

// DefaultGatewayOptions are the defaults of every flag.
func DefaultGatewayOptions() GatewayOptions {
	return GatewayOptions{Listen: "127.0.0.1:8083", OpsListen: "127.0.0.1:8084", StateDir: "./gateway", Counts: DefaultCountOptions(), StopGrace: 30 * time.Second, Connections: gateway.DefaultConnections, BodyMiB: defaultBodyMiB}
}

// Validate returns every error at once, each saying what to write instead.
func (o GatewayOptions) Validate() error {
	errs := []error{validateListen("--listen", o.Listen, o.Insecure || o.TLS.given()), o.TLS.validate(), validateListen("--ops-listen", o.OpsListen, o.Insecure), validateToken(o.Token), o.Counts.Validate(), validateConnections(o.Connections), validateBodies(o.BodyMiB), validateProxies(o.Proxies)}
	if len(o.Control) == 0 {
		errs = append(errs, errors.New("--control must name the URL of at least one controller's --gateway-listen"))
	}
	for _, u := range o.Control {
		if !strings.HasPrefix(u, "http://") && !strings.HasPrefix(u, "https://") {
			errs = append(errs, fmt.Errorf("--control must be a URL such as http://controller:8082; got %q", u))
		}
	}
	if o.StateDir == "" {
		errs = append(errs, errors.New("--state-dir must not be empty: the last snapshot is kept there"))
	}
	if (o.Endpoints.Machine == "") == !o.Endpoints.Cluster.Enabled {
		errs = append(errs, errors.New("name where the models run: --machine DATA-DIR, or --kubernetes"))
	}
	if o.StopGrace < 0 {
		errs = append(errs, errors.New("--stop-grace must not be negative"))
	}
	return errors.Join(errs...)
}

// GatewayTokenVariable names the environment variable with the shared token.
const GatewayTokenVariable = "MODELDOCK_GATEWAY_TOKEN" //nolint:gosec // the name of a variable

func validateToken(token string) error {
	if token == "" {
		return fmt.Errorf("gateways and controllers need the same token: put it into %s, or into a file named by --gateway-token-file", GatewayTokenVariable)
	}
	return feed.CheckToken(token)
}

// gatewayProcess is the data plane alone: it needs neither ledger nor target.
type gatewayProcess struct {
	opts     GatewayOptions
	log      *slog.Logger
	registry *prometheus.Registry
	callers  *gateway.Connections
	feed     *feed.Client
	table    *route.Table
	recorder *gateway.BatchRecorder
	counts   counts
	tells    telemetry
	tls      *tls.Config // nil: none
	gateway  *gateway.Gateway
	health   *health
}

// Gateway serves /v1 until ctx ends, then drains. started is called once, with
// its URL, when it answers.
func Gateway(ctx context.Context, opts GatewayOptions, out io.Writer, started func(url string)) error {
	if err := opts.Validate(); err != nil {
		return err
	}
	if err := os.MkdirAll(opts.StateDir, 0o700); err != nil {
		return fmt.Errorf("make the gateway's state directory: %w", err)
	}
	g := &gatewayProcess{opts: opts, log: slog.New(slog.NewTextHandler(out, nil)), registry: prometheus.NewRegistry(), health: newHealth(time.Now)}
	listen := new(net.ListenConfig)
	front, err := listen.Listen(ctx, "tcp", opts.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w: stop what uses it, or choose another --listen", opts.Listen, err)
	}
	defer func() { _ = front.Close() }()
	ops, err := listen.Listen(ctx, "tcp", opts.OpsListen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w: stop what uses it, or choose another --ops-listen", opts.OpsListen, err)
	}
	defer func() { _ = ops.Close() }()
	if err := g.build(ctx); err != nil {
		return err
	}
	return g.serve(ctx, front, ops, out, started)
}

func (g *gatewayProcess) build(ctx context.Context) (err error) {
	if g.tls, err = g.opts.TLS.config(time.Now, g.log); err != nil {
		return err
	}
	if g.callers, err = gateway.NewConnections(connectionBounds(g.opts.Connections, g.opts.Proxies), g.log, g.registry); err != nil {
		return err
	}
	if g.tells, err = openTelemetry(ctx, g.opts.AccessLog, g.log); err != nil {
		return err
	}
	g.feed, err = feed.NewClient(feed.ClientConfig{
		URLs: g.opts.Control, Token: g.opts.Token, File: filepath.Join(g.opts.StateDir, "snapshot.json"), Clock: time.Now, Logger: g.log,
	})
	if err != nil {
		return err
	}
	g.table = route.New(time.Now)
	if g.recorder, err = gateway.NewBatchRecorder(g.feed.Store, g.log, g.registry); err != nil {
		return fmt.Errorf("build the evidence recorder: %w", err)
	}
	if g.counts, err = openCounts(g.opts.Counts, time.Now, g.log, g.registry); err != nil {
		return err
	}
	g.gateway, err = gateway.New(g.tells.configure(gateway.Config{
		Snapshot: g.feed.Snapshot, Refresh: g.feed.Refresh, Table: g.table, Recorder: g.recorder, Logger: g.log,
		Limiter: g.counts.limiter, Results: g.counts.results, MaxPriority: func(tenant string) waitroom.Class { return highestClass(g.feed.Snapshot(), tenant) },
		Principal: g.consoleUser, Registerer: g.registry, Wake: g.wake, BodyMemory: int64(g.opts.BodyMiB) << 20, Verify: local.CheckEngine,
	}))
	if err != nil {
		return fmt.Errorf("build the gateway: %w", err)
	}
	g.feed.OnChange(g.gateway.SnapshotChanged)
	return errors.Join(
		g.registry.Register(collectors.NewGoCollector()),
		g.registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
	)
}

// consoleUser knows who comes with a pass that the control plane signed.
func (g *gatewayProcess) consoleUser(r *http.Request) (traffic.Key, error) {
	credential, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	id, err := feed.CheckPass(g.opts.Token, credential, time.Now())
	if errors.Is(err, feed.ErrNoPass) {
		return traffic.Key{}, gateway.ErrNobody
	}
	if err != nil {
		return traffic.Key{}, &gateway.Refusal{Status: http.StatusUnauthorized, Code: "session_refused", Message: err.Error() + "; sign in to the console again"}
	}
	if s := g.feed.Snapshot(); s != nil {
		if key, ok := s.Keys[id]; ok {
			return key, nil
		}
	}
	return traffic.Key{}, &gateway.Refusal{Status: http.StatusUnauthorized, Code: "session_refused", Message: "the key behind this session is not known to the gateway yet, or was revoked; try again, or sign in with another"}
}

func (g *gatewayProcess) serve(ctx context.Context, front, ops net.Listener, out io.Writer, started func(url string)) error {
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	followed := make(chan error, 1)
	go func() { followed <- g.opts.Endpoints.follow(work, g.feed, g.table.Set, g.log) }()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		signals.New(signals.Config{Table: g.table, Verify: local.CheckEngine}).Run(work)
	}()
	told := make(chan struct{})
	go func() { defer close(told); g.tellMachine(work) }()
	fed := make(chan struct{})
	go func() { defer close(fed); g.feed.Run(work) }()
	server, side := gateway.NewServer(g.gateway), sideServer(g.opsHandler())
	server.ErrorLog, server.Connections = complaintsTo(g.log, time.Now), g.callers
	failed := make(chan error, 2)
	go func() { failed <- serveHTTP(server, front, g.tls) }()
	go func() { failed <- side.Serve(ops) }()
	g.health.ready(true)
	url := urlOf(front, g.tls)
	_, _ = fmt.Fprintf(out, "ModelDock gateway is ready: %s\n  control   %s\n  ops       http://%s\n", url, strings.Join(g.opts.Control, ", "), reachable(ops.Addr()))
	started(url)
	var err error
	select {
	case <-ctx.Done():
		g.log.Info("stopping: no new requests; running streams may finish", "grace", g.opts.StopGrace)
	case err = <-failed:
	case err = <-followed:
		err = errors.Join(errors.New("the endpoints cannot be followed"), err)
	}
	return errors.Join(err, g.shutdown(server, side, stopWork, fed, told, watched))
}

func (g *gatewayProcess) shutdown(server *gateway.Server, side *http.Server, stopWork func(), ended ...<-chan struct{}) error {
	g.health.ready(false)
	g.gateway.Drain()
	stopServing(server, g.opts.StopGrace, g.log)
	g.gateway.Close()
	last, cancelLast := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancelLast()
	err := errors.Join(g.counts.close(), g.recorder.FlushAndClose(last), g.tells.spans.Close(last))
	stopWork()
	for _, e := range ended {
		<-e
	}
	_ = side.Close()
	g.log.Info("stopped")
	return err
}

// opsHandler serves health and metrics, and to controllers what this gateway sees.
func (g *gatewayProcess) opsHandler() http.Handler {
	mux := opsMux(healthz, g.readyz, g.registry)
	mux.HandleFunc(pathTraffic, func(w http.ResponseWriter, r *http.Request) {
		if !feed.Authorized(r, g.opts.Token) {
			answerJSON(w, r, http.StatusUnauthorized, map[string]string{"error": "the token of the gateways is needed here"})
			return
		}
		answerJSON(w, r, http.StatusOK, viewOf(g.table, g.gateway, g.feed.Snapshot()))
	})
	return mux
}

// readyz is about this gateway alone: without its control plane it goes on
// with what it knows, and says so.
func (g *gatewayProcess) readyz(w http.ResponseWriter, r *http.Request) {
	ready, reasons := g.health.verdict(true)
	if g.feed.Snapshot() == nil {
		ready, reasons = false, append(reasons, "no snapshot has come from the control plane yet")
	}
	if why := g.feed.Lost(); why != "" {
		reasons = append(reasons, "control: "+why)
	}
	status := http.StatusOK
	if !ready {
		status = http.StatusServiceUnavailable
	}
	answerJSON(w, r, status, map[string]any{"ready": ready, "reasons": reasons})
}
