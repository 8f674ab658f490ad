//go:build cluster

package autoscaling

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/test/cluster"
	"modeldock.io/test/cluster/dock"
	"modeldock.io/test/cluster/management"
)

// tenant is whose models these are.
const tenant = "team-a"

// longestStream bounds every stream, those included that wait for a replica.
const longestStream = 10 * time.Minute

// bundle is a cluster with ModelDock on it, whose metrics API stands behind
// the API server.
type bundle struct {
	t *testing.T
	// patience bounds every wait on a condition: machines are shared.
	patience time.Duration
	pause    time.Duration // between two looks at it

	cluster *cluster.Cluster
	client  *kubernetes.Clientset
	dock    *dock.Dock
	api     management.Client // as the tenant
	port    string            // of the metrics API
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := start(t, cluster.Options{FastAutoscaling: true})
	b.offer()
	return b
}

func start(t *testing.T, o cluster.Options) *bundle {
	t.Helper()
	binary, err := dock.Program(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := cluster.ForTest(t, o)
	b := &bundle{t: t, patience: 4 * time.Minute, pause: 200 * time.Millisecond, cluster: c, port: freePort(t, "127.0.0.1")}
	if b.client, err = c.Client(); err != nil {
		t.Fatal(err)
	}
	b.dock, err = dock.Start(t.Context(), dock.Options{
		Cluster: c, Binary: binary, Dir: t.TempDir(), Controllers: 1, TenantCap: 16, PoolCap: 16,
		Flags: []string{"--metrics-api-listen=127.0.0.1:" + b.port, "--scale-every=1s", "--drain-delay=1s", "--longest-stream=" + longestStream.String()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, p := range append(append([]*dock.Process{}, b.dock.Controllers...), b.dock.Gateways...) {
				t.Logf("--- %s\n%s", p.Name, p.LogTail())
			}
			for _, what := range []string{"modelservices", "hpa", "pods"} {
				out, err := b.kubectl(context.Background(), "get", what, "-o", "yaml")
				t.Logf("%s: %v\n%.20000s", what, err, out)
			}
		}
		if err := b.dock.Stop(); err != nil {
			t.Error(err)
		}
	})
	b.api = management.Client{URL: b.dock.Controllers[0].URL, Key: b.dock.Keys[tenant]}
	return b
}

func freePort(t *testing.T, host string) string {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// example reads a manifest that people are given.
func (b *bundle) example(name string) string {
	b.t.Helper()
	text, err := os.ReadFile("../../../deploy/examples/" + name)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// offer puts the metrics API behind the API server as the example does, but
// for its Service: the controller is a process of this machine.
func (b *bundle) offer() {
	b.t.Helper()
	documents := strings.Split(b.example("metrics-api.yaml"), "\n---\n")
	for i, d := range documents {
		switch {
		case strings.Contains(d, "\nkind: Service\n") || strings.HasPrefix(d, "apiVersion: v1\nkind: Service\n"):
			documents[i] = fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: modeldock-metrics-api, namespace: modeldock-system}\nspec: {type: ExternalName, externalName: localhost, ports: [{port: %s}]}\n", b.port)
		case strings.Contains(d, "kind: APIService"):
			documents[i] = strings.Replace(d, "port: 443", "port: "+b.port, 1)
		}
	}
	if err := b.cluster.Apply(b.t.Context(), strings.Join(documents, "\n---\n")); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) kubectl(ctx context.Context, args ...string) (string, error) {
	return b.cluster.Kubectl(ctx, append([]string{"--namespace", dock.Namespace}, args...)...)
}

func (b *bundle) must(args ...string) string {
	b.t.Helper()
	out, err := b.kubectl(b.t.Context(), args...)
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// eventually waits until ok returns "", and fails with what it said last.
func (b *bundle) eventually(what string, ok func(ctx context.Context) string) {
	b.t.Helper()
	for deadline := time.Now().Add(b.patience); ; {
		last := ok(b.t.Context())
		if last == "" {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("waited %s for %s; last: %s", b.patience, what, last)
		}
		time.Sleep(b.pause)
	}
}

// serve submits a model whose replicas run two requests at once, and waits
// until one is ready.
func (b *bundle) serve(id, actuator string, least, most int) {
	b.t.Helper()
	window := map[string]any{"stabilizationWindowSeconds": 0, "policies": []any{map[string]any{"type": "Pods", "value": 4, "periodSeconds": 5}}}
	b.submit(id, map[string]any{
		"name": id, "engine": "simulated", "args": []string{"--concurrency=2", "--token-time=150ms", "--tokens=200"}, "replicas": map[string]any{"min": least, "max": most},
		"scaling": map[string]any{"actuator": actuator, "targets": map[string]any{"queueDepth": 2}, "behavior": map[string]any{"scaleUp": window, "scaleDown": window}},
	})
	b.replicas(id, least)
}

func (b *bundle) submit(id string, model map[string]any) {
	b.t.Helper()
	if err := b.api.Call(b.t.Context(), http.MethodPost, "/requests", map[string]any{"id": id, "cost": 1, "priority": 50, "model": model}, nil); err != nil {
		b.t.Fatal(err)
	}
}

// replicas waits until exactly so many run, and are ready.
func (b *bundle) replicas(id string, want int) {
	b.t.Helper()
	b.eventually(fmt.Sprintf("%d replicas of %s", want, id), func(ctx context.Context) string {
		out, err := b.kubectl(ctx, "get", "modelservice", object(id), "-o", "jsonpath={.spec.replicas} {.status.replicas} {.status.readyReplicas}")
		if err == nil && out == fmt.Sprintf("%d %d %d", want, want, want) {
			return ""
		}
		return fmt.Sprintf("asked for, there, ready: %s, %v", out, err)
	})
}

func object(id string) string { return delivery.ObjectName(budget.Ref{Tenant: tenant, ID: id}) }

// autoscaler waits until one is as ok says.
func (b *bundle) autoscaler(name, what string, ok func(*autoscalingv2.HorizontalPodAutoscaler) bool) {
	b.t.Helper()
	b.eventually(what+" of autoscaler "+name, func(ctx context.Context) string {
		h, err := b.client.AutoscalingV2().HorizontalPodAutoscalers(dock.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && ok(h) {
			return ""
		}
		text, _ := json.Marshal(h)
		return fmt.Sprintf("%s, %v", text, err)
	})
}

// condition is the status of one of an autoscaler's conditions.
func condition(h *autoscalingv2.HorizontalPodAutoscaler, kind autoscalingv2.HorizontalPodAutoscalerConditionType) string {
	for _, c := range h.Status.Conditions {
		if c.Type == kind {
			return string(c.Status)
		}
	}
	return ""
}

// streams are calls of a model that run at once.
type streams struct {
	all    sync.WaitGroup
	mu     sync.Mutex
	errs   []error
	begun  int
	chunks int
}

// call begins n streams that end when the engine likes.
func (b *bundle) call(id string, n int) *streams { return b.callFor(id, n, 200) }

func (b *bundle) callFor(id string, n, tokens int) *streams {
	s := &streams{begun: n}
	for range n {
		s.all.Go(func() {
			err := b.stream(id, tokens, s)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.errs = append(s.errs, err)
		})
	}
	return s
}

// uncut waits for all of them and fails unless each came to its end.
func (s *streams) uncut(t *testing.T) {
	t.Helper()
	s.all.Wait()
	if err := errors.Join(s.errs...); err != nil || len(s.errs) != s.begun || s.chunks < s.begun {
		t.Errorf("%d of %d streams with %d chunks, %v", len(s.errs), s.begun, s.chunks, err)
	}
}

func (b *bundle) stream(id string, tokens int, s *streams) error {
	ctx, cancel := context.WithTimeout(context.Background(), longestStream)
	defer cancel()
	body := fmt.Sprintf(`{"model":%q,"stream":true,"max_tokens":%d,"messages":[{"role":"user","content":"count"}]}`, id, tokens)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.dock.Gateways[0].URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+b.dock.Keys[tenant])
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	done := false
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data: {") {
			s.mu.Lock()
			s.chunks++
			s.mu.Unlock()
		}
		done = done || lines.Text() == "data: [DONE]"
	}
	if err := lines.Err(); err != nil || !done || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("a stream of %s ended with %s, whole: %v, %w", id, resp.Status, done, err)
	}
	return nil
}
