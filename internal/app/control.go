package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"modeldock.io/internal/api"
	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/engine"
	"modeldock.io/internal/delivery/remote"
	"modeldock.io/internal/elastic/scaler"
	"modeldock.io/internal/evidence"
	"modeldock.io/internal/outage"
	"modeldock.io/internal/traffic/gateway"
)

// relayLease is how long a row that a killed process was delivering stays out
// of reach. The local target answers in milliseconds and everything may
// happen twice, so it is short.
const relayLease = 3 * time.Second

// store is what one ledger holds: account 1 and account 3's evidence.
type store interface {
	budget.Ledger
	evidence.Store
}

// control is the control plane over whatever ledger and target it was given:
// admission, delivery, verification and the management API.
type control struct {
	log      *slog.Logger
	clock    func() time.Time
	registry *prometheus.Registry
	callers  *gateway.Connections // of the main listener
	started  time.Time

	ledger    store
	moved     bell // the ledger changed
	observed  bell // the target changed
	hub       *api.Hub
	target    remote.Served
	relay     *delivery.Relay
	settler   *delivery.Settler
	reconcile *delivery.Reconciler
	// reconcileEvery is how often it compares; 0: its default.
	reconcileEvery time.Duration
	reconciled     prometheus.Counter // its rounds
	scaled         *scaler.Metrics
	health         *health
	crash          crashPoint
	doubt          delivery.Doubt // many objects missing at once, or an older ledger: admission and release stand still
	stamps         stampKeeper
	age            age // whether the ledger is an older copy
	// atHome returns nil while this process may run the ledger's models; nil
	// where nobody else could.
	atHome func(context.Context) error
	api    *api.Server
	// Outages are told in two lines, however often they are met.
	unchecked  *outage.Log // sessions of callers of /v1
	unadmitted *outage.Log // rounds of admission

	loops sync.WaitGroup
}

func newControl(out io.Writer) *control {
	c := &control{
		log: slog.New(slog.NewTextHandler(out, nil)), clock: time.Now,
		registry: prometheus.NewRegistry(), hub: api.NewHub(),
		reconciled: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "modeldock_delivery_reconciliations_total", Help: "Rounds in which all of ledger and target were compared.",
		}),
	}
	c.scaled = scaler.NewMetrics()
	c.started = c.clock()
	c.health = newHealth(c.clock)
	c.unchecked = outage.New(c.log, c.clock, "callers' sessions cannot be checked")
	c.unadmitted = outage.New(c.log, c.clock, "admission rounds fail; they are tried again within a second")
	return c
}

// openShared opens the ledger that several processes work on.
func (c *control) openShared(ctx context.Context, dsn string, headWait time.Duration) (store, error) {
	l, err := sqlledger.OpenMySQL(ctx, dsn, sqlledger.Options{HeadWait: headWait, OnChange: c.ledgerChanged, Logger: c.log})
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	return l, nil
}

func (c *control) ledgerChanged(ch budget.Change) {
	if ch.Topic == budget.TopicElsewhere {
		c.hub.Reset()
	} else {
		c.hub.Publish(api.Event{Topic: ch.Topic, Tenant: ch.Ref.Tenant, ID: ch.Ref.ID, Revision: ch.Revision})
	}
	c.moved.ring()
}

func (c *control) targetChanged(ref budget.Ref) {
	c.hub.Publish(api.Event{Topic: "model", Tenant: ref.Tenant, ID: ref.ID})
	c.hub.Publish(api.Event{Topic: "node"})
	c.observed.ring()
}

// buildAccounts wires ledger and target.
func (c *control) buildAccounts(target remote.Served, incarnation string, lease time.Duration) {
	c.target, c.age.incarnation = target, incarnation
	c.relay = delivery.NewRelay(delivery.RelayConfig{
		Outbox: c.ledger, Bindings: c.ledger, Target: target, Ledger: incarnation, Owner: relayOwner(),
		Random: rand.Float64, Lease: lease, Doubt: &c.doubt, Stamp: c.stampNow, Logger: c.log, Crash: c.crash.at,
	})
	c.settler = delivery.NewSettler(delivery.SettlerConfig{Ledger: c.ledger, Target: target, Instance: incarnation, Doubt: &c.doubt, Stamp: c.stampNow, Logger: c.log, Crash: c.crash.at})
	c.reconcile = delivery.NewReconciler(delivery.ReconcilerConfig{Ledger: c.ledger, Target: target, Instance: incarnation, Doubt: &c.doubt, Stamp: c.stampNow, Logger: c.log, Every: c.reconcileEvery, Compared: c.reconciled.Inc})
}

// apiConfig is the management API's, without what only its process knows.
func (c *control) apiConfig() api.Config {
	return api.Config{
		Ledger: c.ledger, Evidence: c.ledger, Target: c.target,
		ArgsOutside: engine.ArgsOutsidePreset, CheckSource: engine.CheckSource, Hub: c.hub, Clock: c.clock, Logger: c.log,
		Known:       gateway.AnswerFor,
		Diagnostics: func(context.Context) []openapi.DiagnosticPart { return c.health.parts() },
	}
}

// relayOwner names this process in leases.
func relayOwner() string { return fmt.Sprintf("%s/%d", hostname(), os.Getpid()) }
