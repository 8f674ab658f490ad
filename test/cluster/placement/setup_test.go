//go:build cluster

package placement

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"modeldock.io/deploy"
	"modeldock.io/internal/placement"
	"modeldock.io/internal/placement/nodecards"
	"modeldock.io/test/cluster"
)

const (
	patience      = 3 * time.Minute
	schedulerName = "modeldock-scheduler"
	schedulerUser = "system:serviceaccount:modeldock-system:modeldock-scheduler"
	cardKey       = "scheduler.ai/gpu-device-uuid"
	namespace     = "default"
	cardMiB       = 24576
	nodePrefix    = "gpu-"
	buildDir      = "MODELDOCK_SCHEDULER_BUILD" // variable of where TestMain lets it be built
)

// bundle is a control plane with simulated nodes and modeldock-scheduler on it.
type bundle struct {
	t         *testing.T
	cluster   *cluster.Cluster
	client    *kubernetes.Clientset
	scheduler *cluster.Component
	proxy     *proxy // between scheduler and API server
	port      int    // of the scheduler
}

var program = sync.OnceValues(build)

// build makes modeldock-scheduler, from what the stock programs were compiled from.
func build() (string, error) {
	if path := os.Getenv("MODELDOCK_SCHEDULER_BIN"); path != "" {
		return path, nil
	}
	path := filepath.Join(os.Getenv(buildDir), "modeldock-scheduler")
	cmd := exec.Command("go", "build", "-C", "../../../scheduler", "-ldflags", "-s -w", "-o", path, "./cmd/modeldock-scheduler")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build modeldock-scheduler: %w\n%s", err, out)
	}
	return path, nil
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "modeldock-scheduler-")
	if err == nil {
		err = os.Setenv(buildDir, dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir) // it is a temporary folder's
	os.Exit(code)
}

// same gives every card the same memory.
func same(mib int64) func(node, card int) int64 { return func(int, int) int64 { return mib } }

// setup starts it all; each node has the given number of cards.
func setup(t *testing.T, nodes, cards int, mib func(node, card int) int64) *bundle {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	c := cluster.ForTest(t, cluster.Options{ControlPlaneOnly: true})
	b := &bundle{t: t, cluster: c}
	if b.client, err = c.Client(); err != nil {
		t.Fatal(err)
	}
	b.apply()
	kubeconfig, err := c.AddUser(schedulerUser, "system:serviceaccounts", "system:authenticated")
	if err != nil {
		t.Fatal(err)
	}
	b.proxy = newProxy(t, kubeconfig)
	config := b.configure()
	b.addNodes(nodes, cards, mib)
	b.scheduler, err = c.AddGuest(ctx, schedulerName, func(port int) []string {
		b.port = port
		return []string{
			path, "--config=" + config, "--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port), "--authentication-skip-lookup", "--v=3",
			"--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
			// The stock five minutes would hide that nobody woke a Pod that fits.
			"--pod-max-in-unschedulable-pods-duration=12h",
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// configure writes the sample configuration for this cluster.
func (b *bundle) configure() string {
	b.t.Helper()
	config := strings.Replace(deploy.SchedulerConfig, "clientConnection: {", fmt.Sprintf("clientConnection: {kubeconfig: %q, ", b.proxy.kubeconfig), 1)
	config = strings.Replace(config, "{leaderElect: true, ", "{leaderElect: false, ", 1) // a killed one is followed at once
	path := filepath.Join(b.t.TempDir(), "scheduler.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// apply gives the scheduler its account and its rights.
func (b *bundle) apply() {
	b.t.Helper()
	rights, err := deploy.RightsOf("scheduler")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, text := range []string{deploy.System, rights} {
		if err := b.cluster.Apply(b.t.Context(), text); err != nil {
			b.t.Fatal(err)
		}
	}
}

// addNodes makes nodes gpu-0, gpu-1 …; the cards of each have names of their own.
func (b *bundle) addNodes(nodes, cards int, mib func(node, card int) int64) {
	b.t.Helper()
	if err := b.cluster.AddSimulatedNodes(b.t.Context(), nodes, cluster.NodeTemplate{Prefix: nodePrefix, NoTaint: true}); err != nil {
		b.t.Fatal(err)
	}
	for n := range nodes {
		var list []nodecards.Card
		for i := range cards {
			list = append(list, nodecards.Card{UUID: fmt.Sprintf("SIM-%d-%d", n, i), Index: i, Model: "simulated", TotalMiB: mib(n, i), Healthy: true, Isolation: nodecards.IsolationNone, Simulated: true})
		}
		text, err := nodecards.Encode(list)
		if err != nil {
			b.t.Fatal(err)
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{nodecards.Annotation: text}}})
		if err != nil {
			b.t.Fatal(err)
		}
		if _, err := b.client.CoreV1().Nodes().Patch(b.t.Context(), nodePrefix+strconv.Itoa(n), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			b.t.Fatal(err)
		}
	}
}

// create makes a Pod that asks for memory on one card.
func (b *bundle) create(name string, mib int64, change ...func(*corev1.Pod)) {
	b.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{placement.MemoryAnnotation: strconv.FormatInt(mib, 10)}},
		Spec:       corev1.PodSpec{SchedulerName: schedulerName, Containers: []corev1.Container{{Name: "engine", Image: "x"}}},
	}
	for _, c := range change {
		c(pod)
	}
	if _, err := b.client.CoreV1().Pods(namespace).Create(b.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) delete(name string) {
	b.t.Helper()
	if err := b.client.CoreV1().Pods(namespace).Delete(b.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// placed waits until a Pod is bound and returns it.
func (b *bundle) placed(name string) *corev1.Pod {
	b.t.Helper()
	var pod *corev1.Pod
	b.eventually(func(ctx context.Context) (err error) {
		if pod, err = b.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		if pod.Spec.NodeName == "" {
			return fmt.Errorf("%s is not bound: %s", name, unschedulable(pod))
		}
		return nil
	})
	if pod.Annotations[cardKey] == "" {
		b.t.Fatalf("%s is on %s without a card", name, pod.Spec.NodeName)
	}
	return pod
}

// pending waits until a Pod is said not to fit, and returns why.
func (b *bundle) pending(name string) (reason string) {
	b.t.Helper()
	b.eventually(func(ctx context.Context) error {
		pod, err := b.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pod.Spec.NodeName != "" {
			b.t.Fatalf("%s is on %s, card %s", name, pod.Spec.NodeName, pod.Annotations[cardKey])
		}
		if reason = unschedulable(pod); reason == "" {
			return errors.New("nothing is said of " + name)
		}
		return nil
	})
	return reason
}

func unschedulable(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// used is the memory of Pods by card, and fails the test where it is more than
// a card has.
func (b *bundle) used() map[string]int64 {
	b.t.Helper()
	list, err := b.client.CoreV1().Pods(namespace).List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	used := map[string]int64{}
	for _, p := range list.Items {
		if p.Spec.NodeName == "" {
			continue
		}
		mib, err := placement.ParseMemory(p.Annotations[placement.MemoryAnnotation])
		if err != nil {
			b.t.Fatal(err)
		}
		used[p.Annotations[cardKey]] += mib
	}
	return used
}

func (b *bundle) eventually(condition func(context.Context) error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	for {
		err := condition(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			b.t.Fatalf("not within %s: %v", patience, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
