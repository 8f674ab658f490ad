// Package cluster starts a real Kubernetes on one Linux machine, without Docker:
// etcd, API server, controller-manager, scheduler, and as many real nodes
// (kubelet and containerd, real Pods) and simulated ones (KWOK) as asked for.
// Everything runs on free ports in one folder, dies with the process that
// started it, and is gone after Stop. Real nodes need root; the control plane
// and simulated nodes do not.
package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"modeldock.io/test/cluster/binaries"
)

// Options say what the cluster consists of. The zero value is one real node.
type Options struct {
	// Dir holds everything: kubeconfig, logs, data. What an earlier cluster left
	// there is removed. Default: a new temporary folder, which Stop removes.
	Dir string
	// Nodes is the number of real nodes (default 1, at most 4). They need root.
	Nodes int
	// ControlPlaneOnly leaves real nodes out, and with them the need for root.
	ControlPlaneOnly bool
	// Simulated is the number of simulated nodes to begin with; see AddSimulatedNodes.
	Simulated int
	// AuditLog makes the API server write down every request; see Audit.
	AuditLog bool
	// FastAutoscaling lets HorizontalPodAutoscalers act within seconds.
	FastAutoscaling bool
	// ClientQPS limits the requests per second of controller-manager and
	// scheduler (default 500; stock Kubernetes has 20 and 50).
	ClientQPS int
	// ExtraArgs are appended to the arguments of the named components.
	ExtraArgs map[string][]string
	// Cache is where programs are looked for that are not installed; default binaries.CacheDir.
	Cache string
	// Log says what is being done (default: nothing).
	Log *slog.Logger
}

// Cluster is one running cluster.
type Cluster struct {
	Dir string

	options      Options
	temporary    bool // Dir is ours to remove
	programs     map[string]string
	distribution distribution
	registry     registry
	certs        certificates
	at           endpoints
	host         *launcher // of everything but the nodes' own processes
	nodes        []*Node

	mu         sync.Mutex // guards what follows
	record     *record
	components map[string]*Component
	stopped    bool
}

// Start starts a cluster and returns when its nodes are Ready. After an error
// nothing is left running; the error has the end of the log that explains it.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	c := &Cluster{options: o, components: make(map[string]*Component)}
	err := c.prepare(ctx)
	if err == nil {
		err = c.start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (o *Options) complete() error {
	if o.Nodes == 0 && !o.ControlPlaneOnly {
		o.Nodes = 1
	}
	if o.ControlPlaneOnly {
		o.Nodes = 0
	}
	if o.Nodes < 0 || o.Nodes > maxNodes {
		return fmt.Errorf("start a cluster of %d real nodes: at most %d fit its bridge", o.Nodes, maxNodes)
	}
	if o.Nodes > 0 && os.Getuid() != 0 {
		return errors.New("start real nodes: they need root (mounts, control groups, a network bridge); without it, start the control plane alone")
	}
	if o.ClientQPS == 0 {
		o.ClientQPS = 500
	}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if o.Cache != "" {
		return nil
	}
	var err error
	o.Cache, err = binaries.CacheDir()
	return err
}

// prepare does everything that needs no process yet.
func (c *Cluster) prepare(ctx context.Context) error {
	var err error
	names := []string{Etcd, APIServer, ControllerManager, Scheduler, "kubectl", Kwok}
	if c.options.Nodes > 0 {
		names = append(names, "kubelet", "containerd", "containerd-shim-runc-v2", "ctr")
	}
	if c.programs, err = binaries.Find(ctx, c.options.Cache, names...); err != nil {
		return err
	}
	if c.options.Nodes > 0 {
		if err := c.findDistribution(); err != nil {
			return err
		}
	}
	if c.registry, err = openRegistry(); err != nil {
		return err
	}
	if err := c.claim(ctx); err != nil {
		return err
	}
	if c.host, err = newLauncher(true, func() error { return nil }); err != nil {
		return err
	}
	return nil
}

// claim frees what dead clusters left, takes a folder, a name and addresses,
// and writes them down.
func (c *Cluster) claim(ctx context.Context) error {
	return c.registry.locked(func() error {
		others, err := c.registry.living(ctx)
		if err != nil {
			return err
		}
		if err := c.takeDir(others); err != nil {
			return err
		}
		id := newID()
		c.record = &record{ID: id, Dir: c.Dir, Owner: processOf(os.Getpid()), Block: -1, Components: make(map[string]process)}
		if c.options.Nodes == 0 {
			return c.registry.write(c.record)
		}
		if c.record.Block, err = freeBlock(others); err != nil {
			return err
		}
		c.record.Bridge = "md" + id
		for i := range c.options.Nodes {
			c.record.Cgroups = append(c.record.Cgroups, "modeldock-"+id+"-"+nodeName(i))
		}
		if err := prepareMachine(c.record, others, c.registry.write); err != nil {
			return err
		}
		return makeBridge(ctx, c.record.Bridge, block(c.record.Block), c.options.Nodes)
	})
}

func newID() string {
	bytes := make([]byte, 4)
	_, _ = rand.Read(bytes) // it never fails
	return hex.EncodeToString(bytes)
}

// contents are what a cluster makes in its folder, and removes from it.
func contents() []string {
	return []string{"etcd", "logs", "pki", "users", "nodes", "images", "kubeconfig", "scheduler.yaml", "stages.yaml", auditPolicyFile}
}

func (c *Cluster) takeDir(others []*record) error {
	var err error
	if c.options.Dir == "" {
		c.temporary = true
		if c.Dir, err = os.MkdirTemp("", "cluster-"); err != nil {
			return fmt.Errorf("make the cluster's folder: %w", err)
		}
	} else if c.Dir, err = filepath.Abs(c.options.Dir); err != nil {
		return fmt.Errorf("find the cluster's folder: %w", err)
	}
	for _, other := range others {
		if other.Dir == c.Dir {
			return fmt.Errorf("start a cluster in %s: one runs there already, started by process %d", c.Dir, other.Owner.PID)
		}
	}
	if err := removeContents(c.Dir); err != nil {
		return err
	}
	for _, name := range []string{"logs", "pki", "users", "nodes", "images"} {
		if err := os.MkdirAll(filepath.Join(c.Dir, name), 0o700); err != nil {
			return fmt.Errorf("make the cluster's folder: %w", err)
		}
	}
	return nil
}

func removeContents(dir string) error {
	for _, name := range contents() {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("remove what an earlier cluster left: %w", err)
		}
	}
	return nil
}

// start starts everything, in the order in which things need each other.
func (c *Cluster) start(ctx context.Context) error {
	apiHost := "127.0.0.1"
	if c.options.Nodes > 0 {
		apiHost = nodeAddress(block(c.record.Block), 0).String() // Pods reach it there
	}
	var err error
	if c.at, err = newEndpoints(apiHost); err != nil {
		return err
	}
	// 1. Who is who.
	if c.certs, err = newCertificates(filepath.Join(c.Dir, "pki"), apiHost, time.Now()); err != nil {
		return err
	}
	for user, groups := range map[string][]string{adminUser: {adminGroup}, controllerManagerUser: nil, schedulerUser: nil} {
		if _, err := c.AddUser(user, groups...); err != nil {
			return err
		}
	}
	// 2. The control plane.
	c.options.Log.Info("starting the control plane", "dir", c.Dir)
	if err := c.startControlPlane(ctx); err != nil {
		return err
	}
	// 3. Nodes, real and simulated.
	if err := c.startNodes(ctx); err != nil {
		return err
	}
	if c.options.Simulated > 0 {
		if err := c.AddSimulatedNodes(ctx, c.options.Simulated, NodeTemplate{}); err != nil {
			return err
		}
	}
	// 4. Pods are refused before their namespace has its service account.
	return c.waitServiceAccount(ctx, "default")
}

// add makes a component of the given command.
func (c *Cluster) add(name string, by *launcher, command, env []string, ready func(context.Context) error) *Component {
	if env == nil {
		env = os.Environ()
	}
	component := &Component{
		Name: name, LogFile: filepath.Join(c.Dir, "logs", strings.ReplaceAll(name, "/", "-")+".log"),
		command: command, env: env, launcher: by, ready: ready, started: c.noteStart,
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.components[name] = component
	return component
}

// start is Start, for chaining after add.
func (c *Component) start(ctx context.Context) (*Component, error) { return c, c.Start(ctx) }

// noteStart writes a component's process down.
func (c *Cluster) noteStart(component *Component) error {
	pid := component.PID()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.record.Components[component.Name] = processOf(pid)
	return c.registry.write(c.record)
}

// Component returns one of the cluster's programs, by the names of control.go
// or as NODE/kubelet and NODE/containerd.
func (c *Cluster) Component(name string) (*Component, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if component := c.components[name]; component != nil {
		return component, nil
	}
	return nil, fmt.Errorf("the cluster has no component %s; it has %s", name, strings.Join(slices.Sorted(maps.Keys(c.components)), ", "))
}

// StopAPIServer ends the API server as an upgrade would, with SIGTERM.
func (c *Cluster) StopAPIServer() error {
	component, err := c.Component(APIServer)
	if err != nil {
		return err
	}
	return component.Stop()
}

// StartAPIServer starts the API server again, at the same address, and waits
// until it is ready. Watches of other components take some seconds more.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	component, err := c.Component(APIServer)
	if err != nil {
		return err
	}
	return component.Start(ctx)
}

// APIServerAddress is host and port of the API server, as this machine and its
// Pods reach it. There is no kube-proxy: a Pod that wants the API server is
// given these as KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT.
func (c *Cluster) APIServerAddress() (host string, port int) { return c.at.apiHost, c.at.api }

// answers is a readiness check: the URL answers 200.
func (c *Cluster) answers(url string, client *http.Client) func(context.Context) error {
	if client == nil {
		client = unverified()
	}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return fmt.Errorf("ask %s: %w", url, err)
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }() // only the status counts
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, response.Status)
		}
		return nil
	}
}

func writeFiles(files map[string]string) error {
	for path, content := range files {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return fmt.Errorf("write a configuration file: %w", err)
		}
	}
	return nil
}
