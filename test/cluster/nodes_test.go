package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Two real nodes on one machine: each has a Pod, they reach each other, and
// one node can lose its power and come back.
func TestTwoNodes(t *testing.T) {
	t.Parallel()
	c, client := setup(t, Options{Nodes: 2, ExtraArgs: map[string][]string{
		ControllerManager: {"--node-monitor-period=1s", "--node-monitor-grace-period=15s"},
	}})
	loadEngine(t, c)
	ctx := t.Context()
	if _, err := client.AppsV1().Deployments("default").Create(ctx, engineDeployment("engine", 2), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	on := map[string]corev1.Pod{}
	for _, pod := range readyPods(t, client, "engine", 2) {
		on[pod.Spec.NodeName] = pod
		wantStream(t, pod.Status.PodIP)
	}
	a, b := on["node-a"], on["node-b"]
	if len(on) != 2 || a.Name == "" || b.Name == "" {
		t.Fatalf("Pods are on %v, want one on each of node-a and node-b", on)
	}
	if err := dialFrom(engineProcess(t, c.record.Cgroups[1]), net.JoinHostPort(a.Status.PodIP, fmt.Sprint(enginePort))); err != nil {
		t.Errorf("from the Pod on node-b to the Pod on node-a: %v", err)
	}

	node := c.Nodes()[1]
	node.PowerOff()
	if err := node.Kubelet().Start(ctx); !errors.Is(err, errOff) {
		t.Errorf("start a kubelet on a node without power: %v", err)
	}
	if pids := podProcesses(t, c.record.Cgroups[1]); len(pids) != 0 {
		t.Errorf("processes %v run on a node without power", pids)
	}
	eventually(t, func(ctx context.Context) error {
		state, err := client.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
		if err == nil && nodeReady(state) == nil {
			err = errors.New("it is still Ready")
		}
		return err
	})
	if err := node.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
	if err := node.waitReady(ctx); err != nil {
		t.Fatal(err)
	}
	for _, pod := range readyPods(t, client, "engine", 2) {
		if pod.Spec.NodeName == node.Name && (pod.UID != b.UID || pod.Status.ContainerStatuses[0].RestartCount == 0) {
			t.Errorf("the Pod on %s is %s with %d restarts; want %s, started anew", node.Name, pod.UID, pod.Status.ContainerStatuses[0].RestartCount, b.UID)
		}
		wantStream(t, pod.Status.PodIP)
	}
}

func contains(pods []corev1.Pod, uid string) bool {
	for _, pod := range pods {
		if string(pod.UID) == uid {
			return true
		}
	}
	return false
}

// engineProcess is the process of the engine in a node's Pods.
func engineProcess(t *testing.T, cgroup string) int {
	t.Helper()
	for _, pid := range podProcesses(t, cgroup) {
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.Contains(string(command), "engine-simulated") {
			return pid
		}
	}
	t.Fatalf("no engine runs in %s", cgroup)
	return 0
}

// dialFrom opens a connection from the network of a process.
func dialFrom(pid int, address string) error {
	result := make(chan error, 1)
	onOwnThread(func() {
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
		if err != nil {
			result <- err
			return
		}
		defer func() { _ = ns.Close() }()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			result <- err
			return
		}
		conn, err := net.DialTimeout("tcp", address, 10*time.Second)
		if err == nil {
			err = conn.Close()
		}
		result <- err
	})
	return <-result
}

func buildCommand(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "cluster")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/cluster")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the command: %v\n%s", err, out)
	}
	return program
}

func output(t *testing.T, program string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

func recordOf(t *testing.T, r registry, dir string) *record {
	t.Helper()
	records, err := r.all()
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range records {
		if rec.Dir == dir {
			return rec
		}
	}
	t.Fatalf("there is no record of the cluster in %s", dir)
	return nil
}
