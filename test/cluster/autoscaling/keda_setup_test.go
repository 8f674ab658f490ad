//go:build cluster && keda

package autoscaling

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"modeldock.io/test/cluster"
	"modeldock.io/test/cluster/binaries"
	"modeldock.io/test/cluster/dock"
)

// kedaSystem is the namespace that KEDA's own manifests name.
const kedaSystem = "keda"

// setupKEDA is a cluster with the numbers of a usual one, which writes down who
// writes what. No kube-proxy stands behind a Service's address here, so that the
// API server goes to KEDA's metrics API by its endpoints.
func setupKEDA(t *testing.T) *bundle {
	t.Helper()
	b := start(t, cluster.Options{AuditLog: true, ExtraArgs: map[string][]string{cluster.APIServer: {"--enable-aggregator-routing=true"}}})
	b.patience, b.pause = 15*time.Minute, 2*time.Second
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, args := range [][]string{
			{"get", "scaledobjects", "--all-namespaces", "-o", "yaml"}, {"get", "events", "--all-namespaces"}, {"-n", kedaSystem, "get", "pods", "-o", "wide"},
			{"-n", kedaSystem, "logs", "--tail=60", "deployment/keda-operator"}, {"-n", kedaSystem, "logs", "--tail=30", "deployment/keda-metrics-apiserver"},
		} {
			out, err := b.cluster.Kubectl(context.Background(), args...)
			t.Logf("kubectl %v: %v\n%.20000s", args, err, out)
		}
	})
	b.installKEDA()
	return b
}

// installKEDA applies what KEDA's module has for its installation, with the
// programs that are built from it. Operator and adapter are Pods, because both
// listen on every address of theirs.
func (b *bundle) installKEDA() {
	b.t.Helper()
	programs := b.programs("keda-operator", "keda-adapter")
	tag := strings.TrimPrefix(binaries.KEDAVersion, "v")
	for image, program := range map[string]string{"keda": programs["keda-operator"], "keda-adapter": programs["keda-adapter"]} {
		err := b.cluster.LoadImage(b.t.Context(), cluster.Image{Name: "modeldock.test/" + image + ":" + tag, Files: map[string]string{"/" + image: program}, User: "1000"})
		if err != nil {
			b.t.Fatal(err)
		}
	}
	// There is no DNS either: the adapter learns the operator's address when it
	// has one, and still knows it by the name in its certificate.
	b.applyKEDA(tag, "none", 0)
	var operator string
	b.eventually("KEDA's operator", func(ctx context.Context) string {
		pods, err := b.client.CoreV1().Pods(kedaSystem).List(ctx, metav1.ListOptions{LabelSelector: "app=keda-operator"})
		if err != nil || len(pods.Items) != 1 {
			return fmt.Sprint("its Pods: ", pods.Items, err)
		}
		operator = pods.Items[0].Status.PodIP
		for _, c := range pods.Items[0].Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return ""
			}
		}
		text, _ := json.Marshal(pods.Items[0].Status)
		return string(text)
	})
	b.applyKEDA(tag, operator, 1)
	b.eventually("external.metrics.k8s.io", func(ctx context.Context) string {
		out, err := b.kubectl(ctx, "get", "apiservice", "v1beta1.external.metrics.k8s.io", "-o", `jsonpath={range .status.conditions[*]}{.type} {.status} {.message}{end}`)
		if err == nil && strings.HasPrefix(out, "Available True") {
			return ""
		}
		return fmt.Sprint(out, err)
	})
}

func (b *bundle) programs(names ...string) map[string]string {
	b.t.Helper()
	cache, err := binaries.CacheDir()
	if err != nil {
		b.t.Fatal(err)
	}
	found, err := binaries.Find(b.t.Context(), cache, names...)
	if err != nil {
		b.t.Fatal(err)
	}
	return found
}

// applyKEDA has kubectl put KEDA's manifests together.
func (b *bundle) applyKEDA(tag, operator string, adapters int) {
	b.t.Helper()
	dir := b.t.TempDir()
	manifests, err := filepath.Rel(dir, filepath.Join(b.kedaModule(), "config", "minimal")) // no absolute path may stand there
	if err != nil {
		b.t.Fatal(err)
	}
	host, port := b.cluster.APIServerAddress()
	text := strings.NewReplacer("@MANIFESTS@", manifests, "@TAG@", tag, "@HOST@", host, "@PORT@", fmt.Sprint(port), "@OPERATOR@", operator, "@ADAPTERS@", fmt.Sprint(adapters)).Replace(`apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: ["@MANIFESTS@"]
images:
- {name: ghcr.io/kedacore/keda, newName: modeldock.test/keda, newTag: "@TAG@"}
- {name: ghcr.io/kedacore/keda-metrics-apiserver, newName: modeldock.test/keda-adapter, newTag: "@TAG@"}
patches:
- target: {kind: Deployment}
  patch: |
    - {op: replace, path: /spec/template/spec/containers/0/imagePullPolicy, value: Never}
    - {op: add, path: /spec/template/spec/containers/0/env/-, value: {name: KUBERNETES_SERVICE_HOST, value: "@HOST@"}}
    - {op: add, path: /spec/template/spec/containers/0/env/-, value: {name: KUBERNETES_SERVICE_PORT, value: "@PORT@"}}
- target: {kind: Deployment, name: keda-operator}
  patch: |
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --enable-webhook-patching=false}
- target: {kind: Deployment, name: keda-metrics-apiserver}
  patch: |
    - {op: replace, path: /spec/replicas, value: @ADAPTERS@}
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: "--metrics-service-address=@OPERATOR@:9666"}
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: "--metrics-service-grpc-authority=keda-operator.keda.svc.cluster.local"}
`)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	all, err := b.cluster.Kubectl(b.t.Context(), "kustomize", dir)
	if err == nil {
		err = b.cluster.Apply(b.t.Context(), all)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// kedaModule is the folder of the module that KEDA's programs are built from.
func (b *bundle) kedaModule() string {
	b.t.Helper()
	var errs bytes.Buffer
	cmd := exec.CommandContext(b.t.Context(), "go", "mod", "download", "-json", "github.com/kedacore/keda/v2")
	cmd.Dir, cmd.Env, cmd.Stderr = "../keda", append(os.Environ(), "GOWORK=off"), &errs
	out, err := cmd.Output()
	var module struct{ Dir, Version string }
	if err == nil {
		err = json.Unmarshal(out, &module)
	}
	if err != nil || module.Version != binaries.KEDAVersion {
		b.t.Fatalf("find KEDA's module: %s, %v, %s", module.Version, err, errs.String())
	}
	return module.Dir
}

// ofSleepers are the lines that the example has for models that may sleep.
var ofSleepers = regexp.MustCompile(`(?m)^  (?:idleReplicaCount|cooldownPeriod|initialCooldownPeriod): .*\n`)

// scaledObject applies the example for a model: with its numbers, and a
// Prometheus that is here.
func (b *bundle) scaledObject(id string, least int, from *prometheus) {
	b.t.Helper()
	text := strings.NewReplacer("name: my-model #", "name: "+object(id)+" #", "name: my-model", "name: "+id, "namespace: modeldock", "namespace: "+dock.Namespace,
		"http://prometheus.monitoring.svc:9090", from.url, `"team-a/my-model"`, `"`+tenant+"/"+id+`"`).Replace(b.example("keda.yaml"))
	if least > 0 {
		text = ofSleepers.ReplaceAllString(text, "")
	}
	if err := b.cluster.Apply(b.t.Context(), text); err != nil {
		b.t.Fatal(err)
	}
}
