// Package cluster starts a real Kubernetes on one Linux machine, without Docker:
// etcd, API server, controller-manager, scheduler, and as many real nodes
// (kubelet and containerd, real Pods) and simulated ones (KWOK) as asked for.
// Everything runs on free ports in one folder, dies with the process that
// started it, and is gone after Stop. Real nodes need root; the control plane
// and simulated nodes do not.
package cluster

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"modeldock.io/test/cluster/binaries"
)

// Cluster is one running cluster.
type Cluster struct {
	Dir string

	options      Options
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
