package app

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAgentTellsEveryErrorAtOnce(t *testing.T) {
	t.Parallel()
	err := AgentOptions{OpsListen: "0.0.0.0:1", Cards: "4Gi", CardsFile: "x", Deliver: "hope", Resource: "memory", KubeletDir: "kubelet", RedisURL: "http://x"}.Validate()
	for _, says := range []string{"--ops-listen", "--node", "--cards and --cards-file", "4Gi", "--deliver", "--chunk-mib", "--resource", "--kubelet-dir", "Redis"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("nothing is said of %s: %v", says, err)
		}
	}
	o := DefaultAgentOptions()
	o.Node = "n"
	if err := o.Validate(); err != nil {
		t.Error(err)
	}
}

func TestGPUOptions(t *testing.T) {
	t.Parallel()
	if err := DefaultGPUOptions().validate(); err != nil {
		t.Error(err)
	}
	with := GPUOptions{Deliver: deliverDevicePlugin, Scheduler: "ours", ChunkMiB: 256}
	if err := with.validate(); err != nil {
		t.Error(err)
	}
	if gpu := with.operator(); gpu.Mode != "devicePlugin" || gpu.SchedulerName != "ours" || gpu.ChunkMiB != 256 {
		t.Errorf("%+v", gpu)
	}
	for _, o := range []GPUOptions{{Deliver: "hope", ChunkMiB: 1}, {Deliver: deliverNone, Scheduler: "ours", ChunkMiB: 1}, {Deliver: deliverNone}} {
		if err := o.validate(); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// nowhere is the kubeconfig of a cluster that does not answer.
func nowhere(t *testing.T) string {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
`), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// TestAgentServesMetricsWithoutAClusterThatAnswers runs the whole process
// against an API server that is not there: cards are read all the same.
func TestAgentServesMetricsWithoutAClusterThatAnswers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kubeconfig := nowhere(t)
	o := DefaultAgentOptions()
	o.Node, o.Kubeconfig, o.OpsListen, o.Cards, o.KubeletDir = "n", kubeconfig, "127.0.0.1:0", "2x1024", dir
	ctx, cancel := context.WithCancel(t.Context())
	urls, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- Agent(ctx, o, io.Discard, func(url string) { urls <- url }) }()
	var url string
	select {
	case url = <-urls:
	case err := <-ended:
		t.Fatal(err)
	}
	for deadline, text := time.Now().Add(45*time.Second), ""; ; time.Sleep(20 * time.Millisecond) {
		if resp, err := http.Get(url + "/metrics"); err == nil {
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			text = string(body)
		}
		if strings.Count(text, "modeldock_gpu_memory_total_bytes{") == 2 && strings.Contains(text, `modeldock_gpu_node_writes_total{node="n",result="failed"}`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no metrics of two cards: %s", text)
		}
	}
	for path, status := range map[string]int{"/healthz": 200, "/readyz": 200, "/debug/pprof/": 200} {
		resp, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("%s answers %d", path, resp.StatusCode)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
