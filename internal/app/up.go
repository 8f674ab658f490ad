package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"modeldock.io/internal/api"
	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/jsonledger"
	"modeldock.io/internal/budget/sqlledger"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/engine"
	"modeldock.io/internal/delivery/local"
	"modeldock.io/internal/device"
	"modeldock.io/internal/evidence"
	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway"
	"modeldock.io/internal/traffic/route"
)

// relayLease is how long a row that a killed process was delivering stays out
// of reach. The local target answers in milliseconds and everything may
// happen twice, so it is short.
const relayLease = 3 * time.Second

// Running tells a caller of Up where the platform answers.
type Running struct {
	URL      string
	KeysFile string
	Demo     bool
}

// store is what one ledger file holds: account 1 and account 3's evidence.
type store interface {
	budget.Ledger
	evidence.Store
}

// platform is everything that `modeldock up` runs, in the order it is built.
type platform struct {
	opts     UpOptions
	log      *slog.Logger
	clock    func() time.Time
	registry *prometheus.Registry
	started  time.Time

	dir       *dataDir
	inventory device.Inventory
	ledger    store
	moved     bell // the ledger changed
	observed  bell // the target changed
	hub       *api.Hub
	target    *local.Target
	table     *route.Table
	recorder  *gateway.BatchRecorder
	gateway   *gateway.Gateway
	directory *directory
	relay     *delivery.Relay
	settler   *delivery.Settler
	reconcile *delivery.Reconciler
	health    *health
	crash     crashPoint
	doubt     delivery.Doubt // many objects missing at once, or an older ledger: admission and release stand still
	stamps    *stamps
	age       age // whether the ledger is an older copy
	api       *api.Server

	loops sync.WaitGroup
}

// Up runs the whole platform on one machine until ctx ends, then drains.
// started is called once, when it answers.
func Up(ctx context.Context, opts UpOptions, out io.Writer, started func(Running)) error {
	if err := opts.Validate(); err != nil {
		return err
	}
	p := &platform{
		opts: opts, clock: time.Now, registry: prometheus.NewRegistry(), hub: api.NewHub(),
		log: slog.New(slog.NewTextHandler(out, nil)),
	}
	p.started = p.clock()
	p.health = newHealth(p.clock)
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", opts.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w: stop what uses it, or choose another --listen", opts.Listen, err)
	}
	defer func() { _ = listener.Close() }()
	if p.dir, err = openDataDir(opts.DataDir); err != nil {
		return err
	}
	defer p.dir.close()
	if err := p.build(ctx); err != nil {
		return err
	}
	return p.serve(ctx, listener, out, started)
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
	if err = p.registerMetrics(); err != nil {
		return errors.Join(err, p.ledger.Close())
	}
	return nil
}

func (p *platform) openLedger(ctx context.Context) (store, error) {
	if file, ok := strings.CutPrefix(p.opts.Store, storeJSON); ok {
		l, err := jsonledger.Open(file, jsonledger.Options{Clock: p.clock, HeadWait: p.opts.HeadWait, OnChange: p.ledgerChanged})
		if err != nil {
			return nil, fmt.Errorf("open the JSON ledger: %w", err)
		}
		return l, nil
	}
	l, err := sqlledger.OpenSQLite(ctx, p.dir.file("ledger.db"), sqlledger.Options{Clock: p.clock, HeadWait: p.opts.HeadWait, OnChange: p.ledgerChanged, Logger: p.log})
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	return l, nil
}

func (p *platform) ledgerChanged(c budget.Change) {
	p.hub.Publish(api.Event{Topic: c.Topic, Tenant: c.Ref.Tenant, ID: c.Ref.ID, Revision: c.Revision})
	p.moved.ring()
}

func (p *platform) buildDelivery(ctx context.Context) error {
	incarnation, _, err := p.ledger.Identity(ctx)
	if err != nil {
		return fmt.Errorf("read the ledger's identity: %w", err)
	}
	if p.stamps, err = openStamps(p.dir); err != nil {
		return err
	}
	p.tellOthers(incarnation)
	p.table = route.New(p.clock)
	p.target, err = local.New(local.Config{
		DataDir: p.dir.path, Executable: p.opts.Executable, Node: hostname(), Ledger: incarnation,
		Inventory: p.inventory, Clock: p.clock, Logger: p.log, StopGrace: p.opts.StopGrace,
		OnChange:    p.statusChanged,
		OnEndpoints: p.endpointsChanged,
		InFlight:    p.table.InFlight,
	})
	if err != nil {
		return fmt.Errorf("prepare the local target: %w", err)
	}
	p.relay = delivery.NewRelay(delivery.RelayConfig{
		Outbox: p.ledger, Bindings: p.ledger, Target: p.target, Ledger: incarnation, Owner: relayOwner(),
		Random: rand.Float64, Lease: relayLease, Doubt: &p.doubt, Stamp: p.stampNow, Logger: p.log, Crash: p.crash.at,
	})
	p.settler = delivery.NewSettler(delivery.SettlerConfig{Ledger: p.ledger, Target: p.target, Instance: incarnation, Doubt: &p.doubt, Stamp: p.stampNow, Logger: p.log, Crash: p.crash.at})
	p.reconcile = delivery.NewReconciler(delivery.ReconcilerConfig{Ledger: p.ledger, Target: p.target, Instance: incarnation, Doubt: &p.doubt, Stamp: p.stampNow, Logger: p.log})
	return nil
}

func (p *platform) statusChanged(st delivery.Status) {
	p.hub.Publish(api.Event{Topic: "model", Tenant: st.Ref.Tenant, ID: st.Ref.ID})
	p.hub.Publish(api.Event{Topic: "node"})
	p.observed.ring()
}

func (p *platform) endpointsChanged(eps []local.Endpoint) {
	list := make([]traffic.Endpoint, 0, len(eps))
	for _, e := range eps {
		list = append(list, traffic.Endpoint{
			UID: e.UID, Owner: e.Ref.Tenant, Model: e.Model, Version: e.Version, RequestID: e.Ref.ID,
			ObjectUID: e.ObjectUID, Address: e.Address, Upstream: e.Upstream, Node: e.Node, Card: e.Card,
		})
	}
	p.table.Set(list)
}

func (p *platform) buildTraffic(ctx context.Context) (err error) {
	p.directory = newDirectory(p.ledger, p.target, p.clock, p.log)
	if err = p.directory.refresh(ctx); err != nil {
		return fmt.Errorf("make the gateway's first snapshot: %w", err)
	}
	if p.recorder, err = gateway.NewBatchRecorder(p.ledger.PutInferences, p.log, p.registry); err != nil {
		return fmt.Errorf("build the evidence recorder: %w", err)
	}
	p.gateway, err = gateway.New(gateway.Config{
		Snapshot: p.directory.snapshot, Refresh: p.directory.refreshSince, Table: p.table, Recorder: p.recorder, Clock: p.clock, Logger: p.log,
		Principal: p.consolePrincipal, Registerer: p.registry,
	})
	if err != nil {
		return fmt.Errorf("build the gateway: %w", err)
	}
	p.directory.changed = p.gateway.SnapshotChanged
	return nil
}

func (p *platform) buildAPI() {
	cfg := api.Config{
		Ledger: p.ledger, Evidence: p.ledger, Target: p.target, Fleet: fleet{p}, Load: load{p}, Restorer: restorer{p}, SpoolDir: p.dir.path,
		ArgsOutside: engine.ArgsOutsidePreset, Recent: p.recorder.Find, CheckSource: engine.CheckSource, OnLoopback: p.opts.onLoopback(), Hub: p.hub, Clock: p.clock, Logger: p.log,
		Diagnostics: func(ctx context.Context) []openapi.DiagnosticPart { return p.health.parts() },
	}
	if p.opts.Manual {
		cfg.Stepper = stepper{p}
	}
	p.api = api.New(cfg)
}

// banner tells a person what runs and where to go next.
func (p *platform) banner(out io.Writer, r Running) {
	_, _ = fmt.Fprintf(out, "ModelDock is ready: %s\n", r.URL)
	_, _ = fmt.Fprintf(out, "  console   %s/console/\n", r.URL)
	_, _ = fmt.Fprintf(out, "  gateway   %s/v1   (any OpenAI client)\n", r.URL)
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
		_, _ = fmt.Fprintf(out, "  note      not running as root: engines other than the simulated one run as this user and can read what it can\n")
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

func relayOwner() string { return fmt.Sprintf("%s/%d", hostname(), os.Getpid()) }

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
