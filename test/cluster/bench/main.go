// Command bench measures ModelDock on a real API server with simulated nodes:
// the time until a thousand ModelServices are Ready against as many plain
// Deployments of the same shape, the controllers' memory, two latencies on the
// idle cluster, and what is written while nothing changes. It prints both
// sides and their ratio; the last line is JSON.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"modeldock.io/test/cluster"
	"modeldock.io/test/cluster/dock"
)

// plan says how much is measured.
type plan struct {
	objects   int           // ModelServices, and plain Deployments
	samples   int           // of each latency
	reconcile time.Duration // between rounds, of which five are watched
	profiles  string        // folder for CPU profiles of every round; empty: none
}

var (
	full  = plan{objects: 1000, samples: 200, reconcile: 30 * time.Second}
	quick = plan{objects: 100, samples: 20, reconcile: 3 * time.Second}
)

func main() {
	short := flag.Bool("quick", false, "finish within two minutes")
	objects := flag.Int("objects", 0, "how many ModelServices; 0: as many as the form has")
	reconcile := flag.Duration("reconcile", 0, "time between rounds of reconciliation; 0: as the form has it")
	dir := flag.String("dir", "", "folder of the cluster's logs; default a temporary one")
	profiles := flag.String("profiles", "", "folder for CPU profiles of the API server and of ModelDock in every round; taking them costs some time itself")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	chosen := full
	if *short {
		chosen = quick
	}
	if *objects > 0 {
		chosen.objects = *objects
	}
	if *reconcile > 0 {
		chosen.reconcile = *reconcile
	}
	chosen.profiles = *profiles
	if err := run(ctx, chosen, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// tenant submits everything.
const tenant = "team-a"

func run(ctx context.Context, p plan, dir string) (err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "bench-cluster-"); err != nil {
			return fmt.Errorf("make a folder: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	binary, err := dock.Program(ctx, dir)
	if err != nil {
		return err
	}
	began := time.Now()
	c, err := cluster.Start(ctx, cluster.Options{Dir: filepath.Join(dir, "cluster"), ControlPlaneOnly: true, AuditLog: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	// Room for both sides and the samples, of 100 Pods a node.
	if err := c.AddSimulatedNodes(ctx, 2*p.objects/100+5, cluster.NodeTemplate{NoTaint: true}); err != nil {
		return err
	}
	slots := int64(2*p.objects + 2*p.samples)
	d, err := dock.Start(ctx, dock.Options{
		Cluster: c, Binary: binary, Dir: filepath.Join(dir, "dock"), PoolCap: slots, TenantCap: slots,
		Flags: []string{"--reconcile-every", p.reconcile.String()},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Stop()) }()
	fmt.Printf("cluster and ModelDock are up after %s\n", time.Since(began).Round(time.Second))
	s, err := newStage(ctx, p, c, d)
	if err != nil {
		return err
	}
	return s.measure(ctx)
}
