//go:build cluster

package cards

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"modeldock.io/deploy"
	"modeldock.io/test/cluster"
	"modeldock.io/test/cluster/dock"
)

// Names on the cluster.
const (
	system  = "modeldock-system"
	account = "system:serviceaccount:" + system + ":modeldock-agent"
	image   = "modeldock.test/showenv:1"
)

// ground is shared by all tests: a cluster takes long to start. Each test has
// a node of its own.
var ground struct {
	dir, binary, kubeconfig string
	cluster                 *cluster.Cluster
	client                  *kubernetes.Clientset
	scheduler               *kubernetes.Clientset // as modeldock-scheduler
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	dir, err := os.MkdirTemp("", "cards-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		return 1
	}
	ground.dir = dir
	if err := prepare(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL: prepare the cluster:", errors.Join(err, stop()))
		return 1
	}
	defer func() {
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, "FAIL: stop the cluster:", err)
			code = 1
		}
		if code == 0 {
			_ = os.RemoveAll(dir) // otherwise its logs are of use
		}
	}()
	return m.Run()
}

func stop() error {
	if ground.cluster == nil {
		return nil
	}
	return ground.cluster.Stop()
}

func prepare(ctx context.Context) (err error) {
	if ground.binary = os.Getenv("MODELDOCK_STATIC_BIN"); ground.binary == "" {
		ground.binary = filepath.Join(ground.dir, "modeldock")
		if err = build(ctx, "../../..", ground.binary, "./cmd/modeldock"); err != nil {
			return err
		}
	}
	showenv := filepath.Join(ground.dir, "showenv")
	if err = build(ctx, ".", showenv, "./showenv"); err != nil {
		return err
	}
	if ground.cluster, err = cluster.Start(ctx, cluster.Options{Nodes: 3, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}); err != nil {
		return err
	}
	if ground.client, err = ground.cluster.Client(); err != nil {
		return err
	}
	// An image that would see every card of the node, if it were asked.
	err = ground.cluster.LoadImage(ctx, cluster.Image{
		Name: image, Files: map[string]string{"/showenv": showenv}, Entrypoint: []string{"/showenv"}, Env: []string{"NVIDIA_VISIBLE_DEVICES=all"}, User: "10001",
	})
	if err != nil {
		return err
	}
	if ground.kubeconfig, err = ground.cluster.AddUser(account, "system:serviceaccounts", "system:authenticated"); err != nil {
		return err
	}
	rights, err := deploy.RightsOf("agent", "holders", "scheduler")
	if err != nil {
		return err
	}
	for _, text := range []string{deploy.System, rights, deploy.DeviceClass} {
		if err := ground.cluster.Apply(ctx, text); err != nil {
			return err
		}
	}
	if err := dock.ApplyPolicies(ctx, ground.cluster, dock.DevicePlugin); err != nil {
		return err
	}
	program, err := dock.SchedulerProgram(ctx, ground.dir)
	if err != nil {
		return err
	}
	if _, err := dock.StartScheduler(ctx, ground.cluster, program, ground.dir, ""); err != nil {
		return err
	}
	// Who decides by hand in these tests does it as the scheduler.
	file, err := ground.cluster.AddUser("system:serviceaccount:"+system+":modeldock-scheduler", "system:serviceaccounts", "system:authenticated")
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return err
	}
	ground.scheduler, err = kubernetes.NewForConfig(config)
	return err
}

func build(ctx context.Context, from, to, what string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-C", from, "-o", to, what)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", what, err, out)
	}
	return nil
}
