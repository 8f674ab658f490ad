package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/client-go/kubernetes"

	"modeldock.io/internal/device"
	"modeldock.io/internal/device/agent"
	"modeldock.io/internal/device/deviceplugin"
	"modeldock.io/internal/device/dra"
	"modeldock.io/internal/device/measured/redismeasured"
	"modeldock.io/internal/device/nodeobject"
	"modeldock.io/internal/kube"
	"modeldock.io/internal/placement"
	"modeldock.io/internal/traffic/redislink"
)

const (
	agreeWait   = 5 * time.Second
	agreeEvery  = 2 * time.Second
	agreeLater  = 15 * time.Second // where nothing was answered
	agreeWithin = 8 * time.Second
)

// runner is a part of the agent that works until its context ends.
type runner interface{ Run(ctx context.Context) }

// agentProcess is what one node's cards need.
type agentProcess struct {
	opts     AgentOptions
	log      *slog.Logger
	registry *prometheus.Registry
	client   kubernetes.Interface
	parts    []runner
	watch    *agent.Agent
	close    func() error
}

// Agent serves one node's cards until ctx ends. started is called once, with
// the URL of its health and metrics.
func Agent(ctx context.Context, opts AgentOptions, out io.Writer, started func(url string)) error {
	if err := opts.Validate(); err != nil {
		return err
	}
	a := &agentProcess{opts: opts, log: slog.New(slog.NewTextHandler(out, nil)), registry: prometheus.NewRegistry(), close: func() error { return nil }}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", opts.OpsListen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w: stop what uses it, or choose another --ops-listen", opts.OpsListen, err)
	}
	if err := a.build(); err != nil {
		return errors.Join(err, listener.Close())
	}
	return a.serve(ctx, listener, out, started)
}

// build puts the parts together; those that place models by the cards are the
// agent's sinks.
func (a *agentProcess) build() error {
	o := a.opts
	cfg, err := Cluster{Kubeconfig: o.Kubeconfig}.rest()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(kube.Configured(cfg, "modeldock-agent"))
	if err != nil {
		return fmt.Errorf("make the client of the API server %s: %w", cfg.Host, err)
	}
	a.client = client
	node, err := nodeobject.New(nodeobject.Config{Node: o.Node, Client: client, Logger: a.log, Registerer: a.registry})
	if err != nil {
		return err
	}
	sinks := []agent.Sink{node}
	a.parts = append(a.parts, node)
	switch o.Deliver {
	case deliverDevicePlugin:
		plugin, err := deviceplugin.New(deviceplugin.Config{
			Dir: filepath.Join(o.KubeletDir, "device-plugins"), PodResources: filepath.Join(o.KubeletDir, "pod-resources", "kubelet.sock"),
			Node: o.Node, Resource: o.Resource, ChunkMiB: o.ChunkMiB, Reserve: placement.DefaultReserve(),
			Client: client, Clock: time.Now, Logger: a.log, Registerer: a.registry,
		})
		if err != nil {
			return err
		}
		sinks, a.parts = append(sinks, plugin), append(a.parts, plugin)
	case deliverDRA:
		driver, err := dra.New(dra.Config{
			Node: o.Node, Client: client, KubeletDir: o.KubeletDir, CDIDir: o.CDIDir, NVIDIAKind: o.NVIDIAKind, Reserve: placement.DefaultReserve(),
			Clock: time.Now, Logger: a.log, Registerer: a.registry,
		})
		if err != nil {
			return err
		}
		sinks, a.parts = append(sinks, driver), append(a.parts, driver)
	}
	return a.buildWatch(sinks)
}

func (a *agentProcess) buildWatch(sinks []agent.Sink) error {
	o := a.opts
	var publisher agent.Publisher
	if o.RedisURL != "" {
		redis, err := redislink.Parse(o.RedisURL)
		if err != nil {
			return err
		}
		p := redismeasured.NewPublisher(redis, o.Node, time.Now)
		publisher, a.close = p, p.Close
	}
	watch, err := agent.New(agent.Config{
		Node: o.Node, Sinks: sinks, Publisher: publisher, Clock: time.Now, Logger: a.log, Registerer: a.registry,
		Find: func(ctx context.Context) (device.Inventory, error) {
			return device.Detect(ctx, device.Options{Node: o.Node, Cards: o.Cards, File: o.CardsFile, RealOnly: true})
		},
	})
	if err != nil {
		return errors.Join(err, a.close())
	}
	a.parts, a.watch = append(a.parts, watch), watch
	return errors.Join(
		a.registry.Register(collectors.NewGoCollector()),
		a.registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
	)
}

func (a *agentProcess) serve(ctx context.Context, listener net.Listener, out io.Writer, started func(url string)) error {
	work, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	for _, p := range a.parts {
		running.Go(func() { p.Run(work) })
	}
	server := sideServer(opsMux(healthz, a.readyz, a.registry))
	failed := make(chan error, 2)
	go func() { failed <- server.Serve(listener) }()
	running.Go(func() {
		if err := a.agrees(work); err != nil {
			failed <- err
		}
	})
	url := "http://" + reachable(listener.Addr())
	_, _ = fmt.Fprintf(out, "ModelDock agent of %s is up\n  ops       %s\n  deliver   %s\n", a.opts.Node, url, a.opts.Deliver)
	started(url)
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	stop()
	running.Wait()
	_ = server.Close()
	a.log.Info("stopped")
	return errors.Join(err, a.close())
}

// agrees compares the size of our chunks with that of the API server's policies,
// once, as soon as it answers. Another size is an error that ends the agent, but
// for a moment: an upgrade that changes both changes the policies last.
func (a *agentProcess) agrees(ctx context.Context) error {
	if a.opts.Deliver != deliverDevicePlugin || a.opts.Resource != deviceplugin.DefaultResource {
		return nil // no policy of ours asks for it
	}
	told, since := "", time.Time{}
	for {
		wait := agreeEvery
		asking, cancel := context.WithTimeout(ctx, agreeWait)
		err := deviceplugin.Agree(asking, a.client, a.opts.ChunkMiB)
		cancel()
		var differ *deviceplugin.DisagreeError
		switch {
		case err == nil, ctx.Err() != nil:
			return nil //nolint:nilerr // an agent that is told to end did not disagree
		case errors.As(err, &differ):
			if since.IsZero() {
				since = time.Now()
			}
			if time.Since(since) > agreeWithin {
				return err
			}
		default:
			since, wait = time.Time{}, agreeLater
			if err.Error() != told {
				told = err.Error()
				a.log.Warn("whether Pods ask for chunks of our size is not known; it is asked again", "chunk MiB", a.opts.ChunkMiB, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// readyz says whether this node's cards are known right now.
func (a *agentProcess) readyz(w http.ResponseWriter, r *http.Request) {
	status, reasons := http.StatusOK, []string{}
	if err := a.watch.Ready(); err != nil {
		status, reasons = http.StatusServiceUnavailable, append(reasons, "cards: "+err.Error())
	}
	answerJSON(w, r, status, map[string]any{"ready": len(reasons) == 0, "reasons": reasons})
}
