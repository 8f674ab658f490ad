// Package dra offers a node's cards to Kubernetes' dynamic resource allocation
// (account 2): as devices whose memory several claims share. The allocator
// decides which card a claim gets, and its status says so; this driver gives
// the claim's containers exactly that card.
package dra

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"modeldock.io/internal/device"
	"modeldock.io/internal/placement"
)

// DefaultCDIDir is where container runtimes look for devices.
const DefaultCDIDir = "/var/run/cdi"

const (
	startAgain  = 2 * time.Second
	askWait     = 10 * time.Second
	healthEvery = 10 * time.Second // the kubelet forgets a health that is not told for 30 s
)

// Config is what a driver works with.
type Config struct {
	Node       string
	Client     kubernetes.Interface
	KubeletDir string // such as /var/lib/kubelet, as the kubelet itself sees it
	CDIDir     string
	// NVIDIAKind is the CDI kind of real cards where NVIDIA's toolkit describes
	// them by uuid; empty: its container runtime reads NVIDIA_VISIBLE_DEVICES.
	NVIDIAKind string
	Reserve    placement.Reserve // kept back of each card
	Clock      func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Plugin is one node's driver. It implements agent.Sink.
type Plugin struct{ *plugin }

// plugin has what the kubelet's library calls.
type plugin struct {
	cfg     Config
	inject  injector
	refused prometheus.Counter

	mu      sync.Mutex
	kept    *checkpoint
	cards   []device.Card
	known   bool          // something was set
	changed chan struct{} // closed at the next change
}

// New makes a driver with what an earlier one prepared; Run starts it.
func New(cfg Config) (Plugin, error) {
	d := &plugin{
		cfg: cfg, inject: injector{cfg.CDIDir, cfg.NVIDIAKind}, changed: make(chan struct{}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "modeldock_gpu_claims_refused_total", Help: "Attempts to prepare a claim that failed; the kubelet tries again.",
		}),
	}
	if err := os.MkdirAll(d.dataDir(), 0o750); err != nil {
		return Plugin{}, fmt.Errorf("make the driver's folder: %w", err)
	}
	var err error
	if d.kept, err = openCheckpoint(d.dataDir()); err != nil {
		return Plugin{}, err
	}
	if err := d.inject.agree(d.kept.claims); err != nil {
		return Plugin{}, err
	}
	claims := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "modeldock_gpu_claims_prepared", Help: "Claims whose cards are given to Pods of this node.",
	}, func() float64 {
		d.mu.Lock()
		defer d.mu.Unlock()
		return float64(len(d.kept.claims))
	})
	for _, c := range []prometheus.Collector{d.refused, claims} {
		if err := cfg.Registerer.Register(c); err != nil {
			return Plugin{}, fmt.Errorf("register the metrics of the claims: %w", err)
		}
	}
	return Plugin{d}, nil
}

func (d *plugin) dataDir() string { return filepath.Join(d.cfg.KubeletDir, "plugins", Driver) }

// Set implements agent.Sink.
func (p Plugin) Set(cards []device.Card) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cards, p.known = cards, true
	close(p.changed)
	p.changed = make(chan struct{})
}

func (d *plugin) current() (cards []device.Card, changed <-chan struct{}, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cards, d.changed, d.known
}

// Run serves the kubelet and publishes the cards until ctx ends.
func (p Plugin) Run(ctx context.Context) {
	if _, changed, known := p.current(); !known { // a claim could not be judged before
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
	asked, cancel := context.WithTimeout(ctx, askWait)
	if err := p.prune(asked); err != nil && ctx.Err() == nil {
		p.cfg.Logger.Warn("claims that may be gone are kept", "error", err)
	}
	cancel()
	for told := ""; ctx.Err() == nil; {
		err := p.serve(ctx)
		if err != nil && ctx.Err() == nil && err.Error() != told {
			told = err.Error()
			p.cfg.Logger.Warn("cards are not offered to claims; it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(startAgain):
		}
	}
}

// serve runs until ctx ends, or returns an error at the start. The library
// finds a kubelet that starts anew, and writes a slice only when it differs.
func (p Plugin) serve(ctx context.Context) error {
	helper, err := kubeletplugin.Start(ctx, p.plugin,
		kubeletplugin.DriverName(Driver), kubeletplugin.NodeName(p.cfg.Node), kubeletplugin.KubeClient(p.cfg.Client),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join(p.cfg.KubeletDir, "plugins_registry")),
		kubeletplugin.PluginDataDirectoryPath(p.dataDir()), kubeletplugin.GRPCVerbosity(-1),
	)
	if err != nil {
		return fmt.Errorf("serve the kubelet's claims: %w", err)
	}
	defer helper.Stop()
	for {
		cards, changed, _ := p.current()
		if err := helper.PublishResources(ctx, offer(p.cfg.Node, cards, p.cfg.Reserve)); err != nil {
			return fmt.Errorf("publish the cards: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// HandleError implements kubeletplugin.DRAPlugin. Nothing is so bad that
// containers should lose their driver; what stays wrong is logged each time.
func (d *plugin) HandleError(_ context.Context, err error, msg string) {
	d.cfg.Logger.Error("the cards cannot be offered as they should be", "what", msg, "error", err, "tried again", errors.Is(err, kubeletplugin.ErrRecoverable))
}

// WatchHealthStatus implements kubeletplugin.DRAPlugin.
func (d *plugin) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	for {
		cards, changed, _ := d.current()
		select {
		case <-ctx.Done():
			return nil
		case reports <- d.health(cards):
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-time.After(healthEvery):
		}
	}
}

func (d *plugin) health(cards []device.Card) kubeletplugin.DeviceHealthReport {
	var report kubeletplugin.DeviceHealthReport
	for _, c := range cards {
		h := kubeletplugin.DeviceHealth{PoolName: d.cfg.Node, DeviceName: deviceName(c.UUID), Health: kubeletplugin.HealthStatusHealthy, LastUpdated: d.cfg.Clock(), Message: c.Reason}
		if !c.Healthy {
			h.Health = kubeletplugin.HealthStatusUnhealthy
		}
		report.Devices = append(report.Devices, h)
	}
	return report
}
