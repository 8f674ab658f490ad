// Package deviceplugin lets the kubelet count GPU memory (account 2): in chunks
// of some MiB, so that it refuses Pods for which the node has no memory left,
// also those that went past our scheduler. It does not say which card a Pod
// gets: that is the scheduler's decision, which reaches the container by its
// own annotation.
package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/client-go/kubernetes"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"modeldock.io/internal/device"
	"modeldock.io/internal/placement"
)

// Defaults.
const (
	DefaultResource = "modeldock.io/gpu-memory"
	DefaultChunkMiB = 256
	DefaultDir      = "/var/lib/kubelet/device-plugins" // compiled into the kubelet
)

const (
	socketName    = "modeldock-gpu-memory.sock"
	kubeletSocket = "kubelet.sock"
	// lookEvery is how often the kubelet is looked for: one that starts takes
	// every plugin's socket away and has to be told anew.
	lookEvery    = 500 * time.Millisecond
	registerWait = 5 * time.Second
)

// Config is what a plugin works with.
type Config struct {
	Dir          string // where the kubelet's socket is
	PodResources string // the kubelet's socket that tells who holds what
	Node         string
	Resource     string
	ChunkMiB     int64
	Reserve      placement.Reserve // kept back of each card, as the scheduler does
	Client       kubernetes.Interface
	Clock        func() time.Time
	Logger       *slog.Logger
	Registerer   prometheus.Registerer
}

// Plugin is one node's. It implements agent.Sink.
type Plugin struct {
	pluginapi.UnimplementedDevicePluginServer

	cfg     Config
	metrics *metrics
	reader  *reader

	looking sync.Mutex // held while the kubelet is asked who holds chunks

	mu       sync.Mutex
	set      bool // cards are known, or that there are none
	asked    bool // who holds chunks was asked for
	read     bool // and was answered
	cards    []device.Card
	holders  []holder
	given    map[string]time.Time // chunks since then
	division division
	changed  chan struct{} // closed at the next change
	ready    chan struct{} // closed when there is something to say
	why      string        // holders or their cards are not known, as the log has it
}

// New makes a plugin, which Run starts.
func New(cfg Config) (*Plugin, error) {
	if cfg.ChunkMiB < 1 {
		return nil, fmt.Errorf("a chunk of %d MiB is none; give at least 1", cfg.ChunkMiB)
	}
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, err
	}
	return &Plugin{
		cfg: cfg, metrics: m, given: map[string]time.Time{}, changed: make(chan struct{}), ready: make(chan struct{}),
		reader: &reader{socket: cfg.PodResources, resource: cfg.Resource, node: cfg.Node, client: cfg.Client},
	}, nil
}

// Run serves the kubelet until ctx ends, whichever of them is there first and
// however often it starts anew.
func (p *Plugin) Run(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { p.follow(ctx) })
	select { // without cards there is nothing to say
	case <-ctx.Done():
		return
	case <-p.ready:
	}
	for told := ""; ctx.Err() == nil; {
		err := p.serve(ctx)
		if err != nil && ctx.Err() == nil && err.Error() != told {
			told = err.Error()
			p.cfg.Logger.Warn("the kubelet does not count GPU memory; it is tried again", "error", err)
		}
		if err == nil {
			told = ""
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookEvery):
		}
	}
}

// serve listens, registers, and returns when the kubelet has to be told anew.
func (p *Plugin) serve(ctx context.Context) error {
	ours, theirs := filepath.Join(p.cfg.Dir, socketName), filepath.Join(p.cfg.Dir, kubeletSocket)
	kubelet, err := os.Stat(theirs)
	if err != nil {
		return fmt.Errorf("look for the kubelet: %w", err)
	}
	if err := os.Remove(ours); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("take the socket of an earlier agent away: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", ours)
	if err != nil {
		return fmt.Errorf("listen for the kubelet: %w", err)
	}
	socket, err := os.Stat(ours)
	if err != nil {
		return errors.Join(fmt.Errorf("look at our socket: %w", err), listener.Close())
	}
	p.look(ctx) // a kubelet that has just started holds what the one before it gave
	server := grpc.NewServer()
	pluginapi.RegisterDevicePluginServer(server, p)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	defer server.Stop() // without waiting for the stream of slots, which never ends
	if err := p.register(ctx, theirs); err != nil {
		return err
	}
	p.metrics.registrations.Inc()
	p.cfg.Logger.Info("the kubelet counts GPU memory", "resource", p.cfg.Resource, "chunk MiB", p.cfg.ChunkMiB)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return fmt.Errorf("serve the kubelet: %w", err)
		case <-tick.C:
		}
		if !same(ours, socket) || !same(theirs, kubelet) {
			p.cfg.Logger.Info("the kubelet has started anew")
			return nil
		}
	}
}

// same reports whether a socket is the one that was seen before. Its inode
// alone proves nothing: a new file may have the old one's.
func same(path string, before os.FileInfo) bool {
	now, err := os.Stat(path)
	return err == nil && os.SameFile(now, before) && now.ModTime().Equal(before.ModTime())
}

func (p *Plugin) register(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, registerWait)
	defer cancel()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("reach the kubelet: %w", err)
	}
	defer func() { _ = conn.Close() }() // what counts has been answered
	_, err = pluginapi.NewRegistrationClient(conn).Register(ctx, &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: socketName, ResourceName: p.cfg.Resource,
		Options: options(),
	})
	if err != nil {
		return fmt.Errorf("register %s with the kubelet: %w", p.cfg.Resource, err)
	}
	return nil
}

func options() *pluginapi.DevicePluginOptions {
	return &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true}
}
