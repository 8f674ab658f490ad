//go:build cluster

package chart

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"modeldock.io/test/cluster"
	"modeldock.io/test/cluster/management"
	"modeldock.io/test/mariadb"
)

// patience bounds every wait on a condition: machines are shared.
const patience = 3 * time.Minute

// ground is a cluster with the image on it, and a database outside.
func ground(t *testing.T) (*cluster.Cluster, *mariadb.Server) {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "modeldock")
	if made := os.Getenv("MODELDOCK_STATIC_BIN"); made != "" {
		if err := os.Symlink(made, binary); err != nil {
			t.Fatal(err)
		}
	} else {
		build := exec.CommandContext(t.Context(), "go", "build", "-C", "../../..", "-o", binary, "./cmd/modeldock")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build modeldock: %v: %s", err, out)
		}
	}
	c := cluster.ForTest(t, cluster.Options{})
	if err := LoadImage(t.Context(), c, binary, dir); err != nil {
		t.Fatal(err)
	}
	db, err := mariadb.Start(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c, db
}

func eventually(t *testing.T, what string, ok func() (bool, any)) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		good, last := ok()
		if good {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s; last: %v", patience, what, last)
		}
	}
}

func install(t *testing.T, c *cluster.Cluster, db *mariadb.Server, name string) *Release {
	t.Helper()
	r, err := Prepare(t.Context(), c, db, name, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	if err := r.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// serve brings up one model and returns whose it is.
func serve(t *testing.T, r *Release, id string, args ...string) management.Client {
	t.Helper()
	team, err := r.Tenant(t.Context(), "team-a")
	if err != nil {
		t.Fatal(err)
	}
	body := map[string]any{"id": id, "cost": 1, "priority": 50, "model": map[string]any{"engine": "simulated", "args": args}}
	if err := team.Call(t.Context(), http.MethodPost, "/requests", body, nil); err != nil {
		t.Fatal(err)
	}
	until(t, team, id, "a ready model", func(rec management.Record) bool { return rec.ReadyReplicas > 0 })
	return team
}

func until(t *testing.T, team management.Client, id, what string, ok func(management.Record) bool) {
	t.Helper()
	eventually(t, what+" of "+id, func() (bool, any) {
		var rec management.Record
		err := team.Call(t.Context(), http.MethodGet, "/requests/"+id, nil, &rec)
		return err == nil && ok(rec), []any{rec, err}
	})
}

// The life of two releases side by side: a streamed answer from each; one is
// upgraded, with another version of the custom resource, while a stream runs
// and others begin; then it is taken away, and nothing of it is left.
func TestReleasesLiveAndEnd(t *testing.T) {
	t.Parallel()
	c, db := ground(t)
	blue, green := install(t, c, db, "blue"), install(t, c, db, "green")
	team := serve(t, blue, "slow", "--tokens=150", "--token-time=200ms")
	serve(t, blue, "quick", "--tokens=4")
	serve(t, green, "quick", "--tokens=4")
	for _, r := range []*Release{blue, green} {
		eventually(t, "a streamed answer from "+r.Name, func() (bool, any) {
			err := r.stream(t.Context(), "quick", nil)
			return err == nil, err
		})
	}

	before := blue.pods(t, "blue-system-models")
	started, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- blue.stream(t.Context(), "slow", func() { close(started) }) }()
	select {
	case <-started:
	case err := <-ended:
		t.Fatal(err)
	}
	calls := blue.keepCalling(t, "quick")
	if _, err := c.Kubectl(t.Context(), "patch", "crd", "modelservices.modeldock.io", "--type=json", "-p",
		`[{"op":"add","path":"/spec/versions/0/additionalPrinterColumns/-","value":{"name":"Later","type":"string","jsonPath":".metadata.uid"}}]`); err != nil {
		t.Fatal(err)
	}
	old := blue.pods(t, blue.Namespace)
	if err := blue.Upgrade(t.Context(), "controller.podAnnotations.round=two,gateway.podAnnotations.round=two"); err != nil {
		t.Fatal(err)
	}
	for name := range blue.pods(t, blue.Namespace) {
		if _, was := old[name]; was && !blue.ending(t, name) {
			t.Errorf("the upgrade kept Pod %s", name)
		}
	}
	if err := <-ended; err != nil {
		t.Errorf("the stream that ran during the upgrade: %v", err)
	}
	calls.end()
	if after := blue.pods(t, "blue-system-models"); !equal(before, after) {
		t.Errorf("models restarted with the upgrade: %v, then %v", before, after)
	}

	blue.uninstallCleanly(t, team)
	if err := green.stream(t.Context(), "quick", nil); err != nil {
		t.Errorf("the other release: %v", err)
	}
}

func equal(a, b map[string]int32) bool {
	for name, n := range a {
		if m, ok := b[name]; !ok || m != n {
			return false
		}
	}
	return len(a) == len(b)
}

// pods are a namespace's Pods, with how often their containers began anew.
func (r *Release) pods(t *testing.T, namespace string) map[string]int32 {
	t.Helper()
	list, err := r.client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int32{}
	for _, p := range list.Items {
		for _, s := range p.Status.ContainerStatuses {
			found[p.Name] += s.RestartCount
		}
		found[p.Name] += 0
	}
	return found
}

func (r *Release) ending(t *testing.T, pod string) bool {
	t.Helper()
	p, err := r.client.CoreV1().Pods(r.Namespace).Get(t.Context(), pod, metav1.GetOptions{})
	return err != nil || p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded
}

// uninstallCleanly releases the models, uninstalls, and names what is left.
func (r *Release) uninstallCleanly(t *testing.T, team management.Client) {
	t.Helper()
	for _, id := range []string{"slow", "quick"} {
		if err := team.Call(t.Context(), http.MethodPost, "/requests/"+id+"/release", nil, nil); err != nil {
			t.Fatal(err)
		}
		until(t, team, id, "the release", func(rec management.Record) bool { return rec.State == "released" })
	}
	if err := r.Uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	// What the ledger's owner needs to come back, and what the namespace's own
	// controllers make.
	stays := []string{"secret/database", "secret/gateways", "secret/" + r.Name + "-modeldock-admin-key", "configmap/kube-root-ca.crt", "configmap/modeldock-ledger", "lease.coordination.k8s.io/modeldock-operator", "serviceaccount/default"}
	eventually(t, "the end of all that was "+r.Name+"'s", func() (bool, any) {
		return r.onlyLeft(t.Context(), stays)
	})
}

func (r *Release) onlyLeft(ctx context.Context, stays []string) (bool, any) {
	var left []string
	for _, args := range [][]string{
		{"-n", r.Namespace, "get", "all,secrets,configmaps,leases,serviceaccounts,roles,rolebindings,networkpolicies,poddisruptionbudgets,persistentvolumeclaims", "-o", "name"},
		{"get", "clusterroles,clusterrolebindings,namespaces", "-l", "app.kubernetes.io/instance=" + r.Name, "-o", "name"},
		{"-n", r.Namespace + "-models", "get", "modelservices,pods,networkpolicies", "-o", "name"},
	} {
		out, err := r.cluster.Kubectl(ctx, args...)
		if err != nil {
			return false, err
		}
		left = append(left, strings.Fields(out)...)
	}
	left = slices.DeleteFunc(left, func(name string) bool { return slices.Contains(stays, name) })
	return len(left) == 0, left
}
