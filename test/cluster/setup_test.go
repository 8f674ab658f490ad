package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
)

const (
	engineImage = "modeldock.test/engine:1"
	enginePort  = 8000
	testWait    = time.Minute
)

// setup starts a cluster for one test and prints its logs if the test fails.
func setup(t *testing.T, o Options) (*Cluster, *kubernetes.Clientset) {
	t.Helper()
	if os.Getuid() != 0 && !o.ControlPlaneOnly {
		t.Skip("real nodes need root")
	}
	c := ForTest(t, o)
	client, err := c.Client()
	if err != nil {
		t.Fatal(err)
	}
	return c, client
}

// loadEngine builds ModelDock, whose simulated engine is a real HTTP server,
// and puts it on all nodes.
func loadEngine(t *testing.T, c *Cluster) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "modeldock")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-C", "../..", "-ldflags", "-s -w", "-o", program, "./cmd/modeldock")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build modeldock: %v\n%s", err, out)
	}
	image := Image{Name: engineImage, Files: map[string]string{"/modeldock": program}, Entrypoint: []string{"/modeldock"}, User: "65532"}
	if err := c.LoadImage(t.Context(), image); err != nil {
		t.Fatal(err)
	}
}

func engineDeployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					DNSPolicy: corev1.DNSDefault,
					TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
						MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
						LabelSelector: &metav1.LabelSelector{MatchLabels: labels}, NodeTaintsPolicy: new(corev1.NodeInclusionPolicyHonor),
					}},
					Containers: []corev1.Container{{
						Name: "engine", Image: engineImage, ImagePullPolicy: corev1.PullNever,
						Args: []string{"engine-simulated", "--host", "0.0.0.0", "--port", fmt.Sprint(enginePort), "--model", "tiny", "--load-time", "0s"},
						ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
							HTTPGet: &corev1.HTTPGetAction{Path: "/health", Port: intstr.FromInt32(enginePort)},
						}},
					}},
				},
			},
		},
	}
}

// readyPods waits until a Deployment has as many Ready Pods as it wants, and no
// others.
func readyPods(t *testing.T, client kubernetes.Interface, app string, want int) []corev1.Pod {
	t.Helper()
	var pods []corev1.Pod
	eventually(t, func(ctx context.Context) error {
		list, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil {
			return err
		}
		pods = list.Items
		ready := 0
		for i := range pods {
			if podReady(&pods[i]) {
				ready++
			}
		}
		if ready != want || len(pods) != want {
			return fmt.Errorf("%d Pods, %d Ready, want %d", len(pods), ready, want)
		}
		return nil
	})
	return pods
}

func podReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func eventually(t *testing.T, condition func(context.Context) error) {
	t.Helper()
	if err := waitFor(t.Context(), testWait, condition); err != nil {
		t.Fatal(err)
	}
}

// stream asks an engine for a streamed answer and returns all of it.
func stream(t *testing.T, ip string) string {
	t.Helper()
	body := []byte(`{"model":"tiny","stream":true,"max_tokens":5,"messages":[{"role":"user","content":"hello"}]}`)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fmt.Sprintf("http://%s:%d/v1/chat/completions", ip, enginePort), bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("stream from %s: %s, %v: %s", ip, response.Status, err, answer)
	}
	return string(answer)
}

func wantStream(t *testing.T, ip string) {
	t.Helper()
	if answer := stream(t, ip); strings.Count(answer, "data: ") < 3 || !strings.HasSuffix(strings.TrimSpace(answer), "data: [DONE]") {
		t.Errorf("a stream from %s is not whole:\n%s", ip, answer)
	}
}
