package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// One real node: Pods run, answer, scale, survive an API server that is
// killed, and leave nothing behind.
func TestRealPods(t *testing.T) {
	t.Parallel()
	c, client := setup(t, Options{AuditLog: true})
	loadEngine(t, c)
	ctx := t.Context()

	if _, err := client.AppsV1().Deployments("default").Create(ctx, engineDeployment("engine", 2), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	before := readyPods(t, client, "engine", 2)
	if _, err := client.AppsV1().Deployments("default").Patch(ctx, "engine", "application/merge-patch+json", []byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	pods := readyPods(t, client, "engine", 3)
	for _, pod := range pods {
		wantStream(t, pod.Status.PodIP)
	}
	// The API server reaches the kubelet, and the kubelet the container runtime.
	if log, err := c.Kubectl(ctx, "logs", pods[0].Name); err != nil || !strings.Contains(log, "simulated engine: ready") {
		t.Errorf("kubectl logs: %v: %s", err, log)
	}
	if out, err := c.Kubectl(ctx, "exec", pods[0].Name, "--", "/modeldock", "version"); err != nil || out == "" {
		t.Errorf("kubectl exec: %v: %s", err, out)
	}
	// This machine reaches the kubelet's sockets, as a device plugin would.
	for _, socket := range []string{filepath.Join(c.Nodes()[0].DevicePluginDir(), "kubelet.sock"), c.Nodes()[0].PodResourcesSocket()} {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Errorf("reach the kubelet: %v", err)
			continue
		}
		_ = conn.Close()
	}
	host, port := c.APIServerAddress()
	if err := dialFrom(engineProcess(t, c.record.Cgroups[0]), net.JoinHostPort(host, strconv.Itoa(port))); err != nil {
		t.Errorf("from a Pod to the API server: %v", err)
	}

	killAPIServer(t, c, before)
	after := readyPods(t, client, "engine", 3)
	for _, pod := range before {
		if !contains(after, string(pod.UID)) {
			t.Errorf("Pod %s did not survive the API server's end", pod.Name)
		}
	}
	wantAudit(t, c, before[0].Name)
	wantNothingLeft(t, c)
}

// killAPIServer kills it and starts it again; what was written is there, and
// controllers work again: they replace a Pod that is not one of those to keep.
func killAPIServer(t *testing.T, c *Cluster, keep []corev1.Pod) {
	t.Helper()
	server, err := c.Component(APIServer)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Kubectl(t.Context(), "get", "nodes"); err == nil {
		t.Error("the API server answers after it was killed")
	}
	if err := c.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	client, err := c.Client()
	if err != nil {
		t.Fatal(err)
	}
	pods := readyPods(t, client, "engine", 3)
	other := pods[slices.IndexFunc(pods, func(p corev1.Pod) bool { return !contains(keep, string(p.UID)) })]
	if err := client.CoreV1().Pods("default").Delete(t.Context(), other.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		list, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=engine"})
		if err == nil && contains(list.Items, string(other.UID)) {
			err = errors.New("the deleted Pod is still there")
		}
		return err
	})
}

func wantAudit(t *testing.T, c *Cluster, pod string) {
	t.Helper()
	events, err := c.Audit()
	if err != nil {
		t.Fatal(err)
	}
	bound := 0
	for _, e := range events {
		if e.ObjectRef.Subresource == "binding" && e.ObjectRef.Name == pod && e.User.Username == schedulerUser && e.Writes() {
			bound++
		}
	}
	if bound != 1 {
		t.Errorf("the audit log has %d bindings of %s by the scheduler, want 1", bound, pod)
	}
}

// wantNothingLeft stops the cluster and looks for everything that it made.
func wantNothingLeft(t *testing.T, c *Cluster) {
	t.Helper()
	made := *c.record
	processes := pidsOf(t, c)
	if len(processes) < 6+2*3 { // components; a sandbox and an engine per Pod
		t.Fatalf("found only %d processes of the cluster: %v", len(processes), processes)
	}
	if _, err := net.InterfaceByName(made.Bridge); err != nil {
		t.Fatal(err)
	}
	if t.Failed() {
		t.Log(c.Logs()) // they go with the folder
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		if p.alive() {
			t.Errorf("process %d is left", p.PID)
		}
	}
	if _, err := net.InterfaceByName(made.Bridge); err == nil {
		t.Errorf("the bridge %s is left", made.Bridge)
	}
	if rules, err := exec.Command("iptables", "-S").Output(); err == nil && strings.Contains(string(rules), made.Bridge) {
		t.Errorf("firewall rules are left:\n%s", rules)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), made.Dir) {
		t.Errorf("mounts are left:\n%s", mounts)
	}
	groups, err := hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range groups {
		if _, err := os.Stat(filepath.Join(dir, made.Cgroups[0])); err == nil {
			t.Errorf("the control group %s/%s is left", dir, made.Cgroups[0])
		}
	}
	if _, err := os.Stat(made.Dir); err == nil {
		t.Errorf("the folder %s is left", made.Dir)
	}
	if _, err := os.Stat(c.registry.path(made.ID)); err == nil {
		t.Errorf("the record of cluster %s is left", made.ID)
	}
}

// pidsOf lists components and everything in the Pods' control groups.
func pidsOf(t *testing.T, c *Cluster) []process {
	t.Helper()
	var found []process
	for _, component := range c.components {
		found = append(found, processOf(component.PID()))
	}
	for _, pid := range podProcesses(t, c.record.Cgroups...) {
		found = append(found, processOf(pid))
	}
	return found
}

func podProcesses(t *testing.T, cgroups ...string) []int {
	t.Helper()
	groups, err := hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	var pids []int
	for _, cgroup := range cgroups {
		err := filepath.Walk(filepath.Join(groups[0], cgroup), func(path string, _ os.FileInfo, err error) error {
			if err != nil || filepath.Base(path) != "cgroup.procs" {
				return nil //nolint:nilerr // groups come and go
			}
			content, _ := os.ReadFile(path)
			for _, field := range strings.Fields(string(content)) {
				if pid, err := strconv.Atoi(field); err == nil && !seen[pid] {
					seen[pid] = true
					pids = append(pids, pid)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return pids
}

// A cluster whose process is killed leaves no process, and the next one takes
// away the rest.
func TestKilledClusterIsCleanedUp(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("real nodes need root")
	}
	dir := t.TempDir()
	program := buildCommand(t)
	run := func(args ...string) (string, error) { return output(t, program, append(args, "--dir", dir)...) }
	if out, err := run("up"); err != nil || !strings.Contains(out, "node-a/kubelet") {
		t.Fatalf("up: %v\n%s", err, out)
	}
	s, ok, err := Running(dir)
	if err != nil || !ok {
		t.Fatalf("the cluster does not run: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Kill(s.PID, syscall.SIGKILL) })
	if out, err := run("up"); err == nil || !strings.Contains(out, fmt.Sprintf("under process %d", s.PID)) {
		t.Errorf("a second up: %v\n%s", err, out)
	}
	r, err := openRegistry()
	if err != nil {
		t.Fatal(err)
	}
	left := recordOf(t, r, dir)
	if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(context.Context) error {
		for name, p := range left.Components {
			if p.alive() {
				return fmt.Errorf("%s is alive", name)
			}
		}
		return nil
	})
	if out, err := run("status"); err == nil || !strings.Contains(out, "no cluster runs") {
		t.Errorf("status: %v\n%s", err, out)
	}
	if err := CleanUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := net.InterfaceByName(left.Bridge); err == nil {
		t.Errorf("the bridge %s is left", left.Bridge)
	}
	if out, err := run("up"); err != nil {
		t.Fatalf("up again: %v\n%s", err, out)
	}
	if out, err := run("status"); err != nil {
		t.Errorf("status: %v\n%s", err, out)
	}
	if out, err := run("down"); err != nil || !strings.Contains(out, "is stopped") || exists(filepath.Join(dir, "kubeconfig")) || !exists(filepath.Join(dir, "logs")) {
		t.Errorf("down: %v\n%s", err, out)
	}
}
