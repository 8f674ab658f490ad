package app

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/traffic/gateway"
)

// Names of what a controller runs.
const (
	partAPI     = "api"     // the management API and the console
	partAdmit   = "admit"   // admission, expiry, verification
	partDeliver = "deliver" // the relay of intents, readiness, credits
	partOperate = "operate" // on a cluster: ModelServices to Deployments, and their numbers of replicas, by whoever holds the Lease
)

// ControllerParts are all of them.
func ControllerParts() []string { return []string{partAPI, partAdmit, partDeliver, partOperate} }

// ControllerOptions are the flags of `modeldock controller`.
type ControllerOptions struct {
	Listen string
	// MetricsAPIListen serves custom.metrics.k8s.io to a cluster's autoscalers;
	// empty: nowhere.
	MetricsAPIListen string
	OpsListen        string  // health, metrics, profiles; empty: nowhere of their own
	Machine          string  // data directory of the `modeldock up` that runs the models
	Cluster          Cluster // or the cluster that does
	Image            string  // of the simulated engine on a cluster; empty: the operator's default
	Drain            Drain   // how replicas end on a cluster
	GPU              GPUOptions
	MySQLDSN         string           // see sqlledger.OpenMySQL. A secret
	Parts            []string         // of ControllerParts
	Insecure         bool             // listen beyond loopback without TLS
	TLS              CertificateFiles // of Listen
	HeadWait         time.Duration
	StopGrace        time.Duration
	// ReconcileEvery is how often ledger and objects are compared, and on a
	// cluster each object with its children.
	ReconcileEvery time.Duration
	Gateways       GatewayLink
	Scaling        ScalingOptions
	Bounds         budget.Bounds // of what one tenant may have stored
	Connections    int           // the most callers at once
	Proxies        []string      // addresses or networks whose connections are many callers'
}

// Drain is how a replica on a cluster ends.
type Drain struct {
	Delay         time.Duration // it still serves, until every gateway has heard
	LongestStream time.Duration // then its streams may go on for so long
}

func (d Drain) validate() error {
	if d.Delay < time.Second || d.LongestStream < time.Second {
		return fmt.Errorf("--drain-delay and --longest-stream must be at least 1s; got %s and %s", d.Delay, d.LongestStream)
	}
	return nil
}

// GatewayLink is how a controller and its gateways know each other.
type GatewayLink struct {
	Listen string   // where gateways get their snapshot; empty: nowhere
	Token  string   // that both share. A secret
	URL    string   // where a console user's calls are forwarded to; empty: nowhere
	CAFile string   // PEM file with who signs the certificate of URL; empty: whom the system trusts
	Ops    []string // URLs of gateways' operations listeners, to be asked what they see
}

func (l GatewayLink) used() bool { return l.Listen != "" || l.URL != "" || len(l.Ops) > 0 }

func (l GatewayLink) validate(insecure bool) error {
	if !l.used() {
		return nil
	}
	errs := []error{validateToken(l.Token)}
	if _, err := url.Parse(l.URL); err != nil {
		errs = append(errs, fmt.Errorf("read the URL of --gateway: %w", err))
	}
	if _, err := trusting(l.CAFile); err != nil {
		errs = append(errs, err)
	}
	if l.Listen != "" {
		errs = append(errs, validateListen("--gateway-listen", l.Listen, insecure))
	}
	return errors.Join(errs...)
}

// DefaultControllerOptions are the defaults of every flag.
func DefaultControllerOptions() ControllerOptions {
	return ControllerOptions{
		Listen: "127.0.0.1:8081", Cluster: Cluster{Namespace: DefaultNamespace, System: DefaultSystemNamespace}, Parts: ControllerParts(),
		Drain: Drain{Delay: 5 * time.Second, LongestStream: 10 * time.Minute}, GPU: DefaultGPUOptions(),
		HeadWait: budget.DefaultHeadWait, StopGrace: 10 * time.Second, ReconcileEvery: time.Minute,
		Scaling: DefaultScalingOptions(), Bounds: budget.DefaultBounds(), Connections: gateway.DefaultConnections,
	}
}

// Validate returns every error at once, each saying what to write instead.
func (o ControllerOptions) Validate() error {
	errs := []error{validateListen("--listen", o.Listen, o.Insecure || o.TLS.given()), o.TLS.validate(), o.Cluster.validate(), o.Drain.validate(), o.GPU.validate(), o.Gateways.validate(o.Insecure), o.Scaling.validate(), validateBounds(o.Bounds), validateConnections(o.Connections), validateProxies(o.Proxies)}
	if o.OpsListen != "" {
		errs = append(errs, validateListen("--ops-listen", o.OpsListen, o.Insecure))
	}
	if o.MetricsAPIListen != "" && !o.Cluster.Enabled {
		errs = append(errs, errors.New("--metrics-api-listen serves a cluster's autoscalers and needs --kubernetes"))
	}
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
