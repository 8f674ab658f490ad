//go:build cluster

package oncluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"

	"modeldock.io/test/cluster"
	"modeldock.io/test/cluster/dock"
	"modeldock.io/test/mariadb"
)

// ground is shared by all tests: a cluster takes long to start, and ModelDocks
// on it do not see each other.
var ground *Ground

// common is an installation that tests share which look at requests of their
// own only.
var common func() (*Installation, error)

// shared is the common installation once it is there.
var shared *Installation

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	dir, err := os.MkdirTemp("", "oncluster-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		return 1
	}
	ground = &Ground{Dir: dir}
	common = sync.OnceValues(func() (*Installation, error) {
		i, err := ground.install(context.Background(), Caps{Tenant: 1000, Pool: 10000}, nil)
		shared = i
		return i, err
	})
	if err = ground.prepare(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL: prepare the cluster:", errors.Join(err, ground.stop()))
		return 1
	}
	defer func() {
		if err := ground.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "FAIL: stop the cluster:", err)
			code = 1
		}
		if code == 0 {
			_ = os.RemoveAll(dir) // otherwise its logs are of use
		}
	}()
	return m.Run()
}

func (g *Ground) prepare(ctx context.Context) (err error) {
	if g.Binary, err = dock.Program(ctx, g.Dir); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if g.Cluster, err = cluster.Start(ctx, cluster.Options{AuditLog: true, Log: log}); err != nil {
		return err
	}
	if err = dock.LoadImage(ctx, g.Cluster, g.Binary); err != nil {
		return err
	}
	g.Database, err = mariadb.Start(ctx, "")
	return err
}

func (g *Ground) stop() error {
	var errs []error
	if shared != nil {
		errs = append(errs, shared.Stop())
	}
	if g.Database != nil {
		errs = append(errs, g.Database.Stop())
	}
	if g.Cluster != nil {
		errs = append(errs, g.Cluster.Stop())
	}
	return errors.Join(errs...)
}
