package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"modeldock.io/internal/api"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/jsonledger"
	"modeldock.io/internal/budget/sqlledger"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/engine"
	"modeldock.io/internal/delivery/local"
	"modeldock.io/internal/delivery/remote"
	"modeldock.io/internal/device"
	"modeldock.io/internal/elastic/scaler"
	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway"
	"modeldock.io/internal/traffic/route"
	"modeldock.io/internal/traffic/waitroom"
)

// Running tells a caller of Up where the platform answers.
type Running struct {
	URL      string
	Ops      string // of the operations listener; empty: none was asked for
	KeysFile string
	Demo     bool
}

// platform is everything that `modeldock up` runs: the control plane, and the
// machine, its gateway and their common listener.
type platform struct {
	*control
	opts UpOptions

	dir       *dataDir
	inventory device.Inventory
	machine   *local.Target
	replicas  *local.Metrics
	hold      *sqlledger.Hold // of the models of a shared database; else nil
	shared    *remote.Server  // of the machine's target; nil unless other processes deliver to it
	table     *route.Table
	recorder  *gateway.BatchRecorder
	gateway   *gateway.Gateway
	directory *directory
	counts    counts
	loads     *gatewayLoads // of other processes
	scaler    *scaler.Scaler
	tells     telemetry
	files     *stamps     // the stamps in the data directory
	tls       *tls.Config // nil: none
}

// Up runs the whole platform on one machine until ctx ends, then drains.
// started is called once, when it answers.
func Up(ctx context.Context, opts UpOptions, out io.Writer, started func(Running)) error {
	if err := opts.Validate(); err != nil {
		return err
	}
	p := &platform{control: newControl(out), opts: opts}
	var err error
	if p.tls, err = opts.TLS.config(p.clock, p.log); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", opts.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w: stop what uses it, or choose another --listen", opts.Listen, err)
	}
	defer func() { _ = listener.Close() }()
	ops, closeOps, err := listenIfAsked(ctx, opts.OpsListen, "--ops-listen")
	if err != nil {
		return err
	}
	defer closeOps()
	if p.dir, err = openDataDir(opts.DataDir); err != nil {
		return err
	}
	defer p.dir.close()
	if err := p.build(ctx); err != nil {
		return err
	}
	return p.serve(ctx, listener, ops, out, started)
}

// build wires the three accounts; what it opened is closed by shutdown.
func (p *platform) build(ctx context.Context) (err error) {
	if p.inventory, err = device.Detect(ctx, device.Options{Node: hostname(), Cards: p.opts.Cards}); err != nil {
		return fmt.Errorf("find the cards: %w", err)
	}
	if p.ledger, err = p.openLedger(ctx); err != nil {
		return err
	}
	if err = seed(ctx, p.ledger, p.dir, p.opts, len(p.inventory.Cards), p.clock()); err != nil {
		return errors.Join(fmt.Errorf("prepare the data directory: %w", err), p.ledger.Close())
	}
	if err = p.buildDelivery(ctx); err != nil {
		return errors.Join(err, p.ledger.Close())
	}
	// Before anything runs: what an older ledger differs in is not acted upon.
	if err = p.checkAge(ctx); err != nil {
		return errors.Join(err, p.ledger.Close())
	}
	if err = p.buildTraffic(ctx); err != nil {
		return errors.Join(err, p.ledger.Close())
	}
	p.buildAPI()
	if err = errors.Join(p.registerMetrics(connectionBounds(p.opts.Connections, p.opts.Proxies)), p.registry.Register(p.replicas)); err != nil {
		return errors.Join(err, p.ledger.Close())
	}
	return nil
}

func (p *platform) openLedger(ctx context.Context) (store, error) {
	file, isJSON := strings.CutPrefix(p.opts.Store, storeJSON)
	switch {
	case isJSON:
		l, err := jsonledger.Open(file, jsonledger.Options{Clock: p.clock, HeadWait: p.opts.HeadWait, OnChange: p.ledgerChanged})
		if err != nil {
			return nil, fmt.Errorf("open the JSON ledger: %w", err)
		}
		return l, nil
	case p.opts.Store == storeMySQL:
		return p.openShared(ctx, p.opts.MySQLDSN, p.opts.HeadWait)
	}
	l, err := sqlledger.OpenSQLite(ctx, p.dir.file(ledgerFile), sqlledger.Options{Clock: p.clock, HeadWait: p.opts.HeadWait, OnChange: p.ledgerChanged, Logger: p.log})
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	return l, nil
}

func (p *platform) buildDelivery(ctx context.Context) error {
	incarnation, _, err := p.ledger.Identity(ctx)
	if err != nil {
		return fmt.Errorf("read the ledger's identity: %w", err)
	}
	if p.files, err = openStamps(p.dir); err != nil {
		return err
	}
	p.stamps = p.files
	p.tellOthers(incarnation)
	p.table = route.New(p.clock)
	asleep, err := p.opts.asleepMemory()
	if err != nil {
		return err
	}
	p.replicas = local.NewMetrics()
	p.machine, err = local.New(local.Config{
		DataDir: p.dir.path, Executable: p.opts.Executable, Node: hostname(), Ledger: incarnation,
		Inventory: p.inventory, Clock: p.clock, Logger: p.log, StopGrace: p.opts.StopGrace, AsleepMiB: asleep, Metrics: p.replicas,
		OnChange:    p.statusChanged,
		OnEndpoints: p.endpointsChanged,
		OnPlan:      func(err error) { p.health.report(ctx, "placement", err) },
		InFlight:    p.table.InFlight,
	})
	if err != nil {
		return fmt.Errorf("prepare the local target: %w", err)
	}
	if shared, ok := p.ledger.(*sqlledger.Ledger); ok && p.opts.Store == storeMySQL {
		if err := p.settleHere(ctx, shared); err != nil {
			return err
		}
		p.shared = remote.NewServer(p.machine)
	}
	p.buildAccounts(p.machine, incarnation, relayLease)
	return nil
}

func (p *platform) statusChanged(st delivery.Status) {
	p.targetChanged(st.Ref)
	if p.shared != nil {
		p.shared.Changed(st.Ref)
	}
}

func (p *platform) endpointsChanged(eps []local.Endpoint) {
	list := make([]traffic.Endpoint, 0, len(eps))
	for _, e := range eps {
		list = append(list, traffic.Endpoint{
			UID: e.UID, Owner: e.Ref.Tenant, Model: e.Model, Version: e.Version, RequestID: e.Ref.ID,
			ObjectUID: e.ObjectUID, Address: e.Address, Upstream: e.Upstream, Node: e.Node, Card: e.Card, CardModel: e.CardModel, Parallel: e.Parallel, UserID: e.UserID,
		})
	}
	p.table.Set(list)
}

func (p *platform) buildTraffic(ctx context.Context) (err error) {
	p.directory = newDirectory(p.ledger, p.machine, p.clock, p.log)
	if err = p.directory.refresh(ctx); err != nil {
		return fmt.Errorf("make the gateway's first snapshot: %w", err)
	}
	if p.tells, err = openTelemetry(ctx, p.opts.AccessLog, p.log); err != nil {
		return err
	}
	sink := &journeys{spans: p.tells.spans, ledger: p.ledger, log: p.log}
	if p.recorder, err = gateway.NewBatchRecorder(sink.put, p.log, p.registry); err != nil {
		return fmt.Errorf("build the evidence recorder: %w", err)
	}
	if p.counts, err = openCounts(p.opts.Counts, p.clock, p.log, p.registry); err != nil {
		return fmt.Errorf("prepare limits and result cache: %w", err)
	}
	p.gateway, err = gateway.New(p.tells.configure(gateway.Config{
		Snapshot: p.directory.snapshot, Refresh: p.directory.refreshSince, Table: p.table, Recorder: p.recorder, Clock: p.clock, Logger: p.log,
		Limiter: p.counts.limiter, Results: p.counts.results, MaxPriority: func(tenant string) waitroom.Class { return highestClass(p.directory.snapshot(), tenant) },
		Principal: p.consolePrincipal, Registerer: p.registry, Wake: p.wake, BodyMemory: int64(p.opts.BodyMiB) << 20, Verify: local.CheckEngine,
	}))
	if err != nil {
		return fmt.Errorf("build the gateway: %w", err)
	}
	p.directory.changed = p.gateway.SnapshotChanged
	p.loads = newGatewayLoads(p.clock)
	p.buildScaler()
	return nil
}

// recordedLimit is how long an explanation waits for records that are being
// stored: whoever got an answer may ask right away.
const recordedLimit = time.Second

func (p *platform) buildAPI() {
	cfg := p.apiConfig()
	cfg.Fleet, cfg.Load, cfg.Recent, cfg.OnLoopback = fleet{p.machine}, load{p}, p.recorder.Find, p.opts.onLoopback()
	cfg.Scaling, cfg.Bounds, cfg.NoAutoscaler = p.scaler, p.opts.Bounds, noKubernetes
	cfg.Restorer, cfg.SpoolDir = restorer{p.control, p.machine}, p.dir.path
	cfg.Recorded = func(ctx context.Context, ref budget.Ref) {
		ctx, cancel := context.WithTimeout(ctx, recordedLimit)
		defer cancel()
		p.recorder.Await(ctx, ref.Tenant, ref.ID, p.clock())
	}
	if p.opts.Manual {
		cfg.Stepper = stepper{p.control}
	}
	p.api = api.New(cfg)
}

// banner tells a person what runs and where to go next.
func (p *platform) banner(out io.Writer, r Running) {
	_, _ = fmt.Fprintf(out, "ModelDock is ready: %s\n", r.URL)
	_, _ = fmt.Fprintf(out, "  console   %s/console/\n", r.URL)
	_, _ = fmt.Fprintf(out, "  gateway   %s/v1   (any OpenAI client)\n", r.URL)
	if r.Ops != "" {
		_, _ = fmt.Fprintf(out, "  ops       %s\n", r.Ops)
	}
	_, _ = fmt.Fprintf(out, "  keys      %s\n", r.KeysFile)
	_, _ = fmt.Fprintf(out, "  cards     %s\n", p.inventory.Why)
	var found []string
	for _, f := range engine.Discover() {
		name := string(f.Engine)
		if f.Path != "" {
			name += " (" + f.Path + ")"
		}
		found = append(found, name)
	}
	_, _ = fmt.Fprintf(out, "  engines   %s\n", strings.Join(found, ", "))
	if os.Geteuid() != 0 {
		_, _ = fmt.Fprintf(out, "  note      not running as root: engines run as this user and can read what it can\n")
	}
	if p.opts.Manual {
		_, _ = fmt.Fprintf(out, "  manual    the loops stand still: modeldock step admit|deliver|reconcile|release\n")
	}
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "localhost"
	}
	return name
}

// DefaultExecutable is the running binary, resolved so that a rename of a
// link does not change which program supervises.
func DefaultExecutable() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the running binary: %w", err)
	}
	if exe, err = filepath.EvalSymlinks(exe); err != nil {
		return "", fmt.Errorf("find the running binary: %w", err)
	}
	return exe, nil
}
