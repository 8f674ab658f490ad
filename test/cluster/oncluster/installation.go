// Package oncluster is the harness of a real cluster: ModelDock in a namespace
// of its own, with a database of its own, whose models are real Pods.
package oncluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/test/cluster"
	"modeldock.io/test/cluster/dock"
	"modeldock.io/test/mariadb"
	"modeldock.io/test/scenario"
)

// Ground is what installations share: the cluster, a database server and the
// program under test.
type Ground struct {
	Cluster  *cluster.Cluster
	Database *mariadb.Server
	Binary   string
	Dir      string

	count atomic.Int64
}

// Caps are the quotas that an installation starts with. The zero value is
// what stories assume.
type Caps struct{ Tenant, Pool int64 }

// Installation is one ModelDock; it implements scenario.Harness.
type Installation struct {
	*dock.Dock
	Ground *Ground
	Client *kubernetes.Clientset

	turn atomic.Uint64 // of the management APIs
}

var _ scenario.Harness = (*Installation)(nil)

// endsSoon lets Pods go within seconds: no stream of a test lasts.
func endsSoon() []string { return []string{"--drain-delay=1s", "--longest-stream=10s"} }

// Install makes an installation and takes it away at the test's end.
func (g *Ground) Install(t testing.TB, caps Caps) *Installation {
	t.Helper()
	return g.InstallOn(t, caps, nil)
}

// InstallOn makes one whose models ask for cards.
func (g *Ground) InstallOn(t testing.TB, caps Caps, cards *dock.Cards) *Installation {
	t.Helper()
	i, err := g.install(t.Context(), caps, cards)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, p := range i.processes() {
				t.Logf("%s: %s", p.Name, p.LogTail())
			}
			for _, what := range []string{"modelservices,deployments,pods", "events"} {
				out, err := i.Kubectl(context.Background(), "get", what, "-o", "wide")
				t.Logf("%s: %v\n%s", what, err, out)
			}
		}
		if err := i.remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return i
}

func (g *Ground) install(ctx context.Context, caps Caps, cards *dock.Cards) (*Installation, error) {
	client, err := g.Cluster.Client()
	if err != nil {
		return nil, err
	}
	name := fmt.Sprint("t", g.count.Add(1))
	flags := endsSoon()
	if cards != nil {
		flags = append(flags, "--min-residence=2s", "--scale-every=1s") // they change hands within seconds
	}
	d, err := dock.Start(ctx, dock.Options{
		Cluster: g.Cluster, Binary: g.Binary, Dir: filepath.Join(g.Dir, name), Name: name, Database: g.Database, HasImage: true,
		TenantCap: caps.Tenant, PoolCap: caps.Pool, Flags: flags, Cards: cards,
	})
	if err != nil {
		return nil, err
	}
	return &Installation{Dock: d, Ground: g, Client: client}, nil
}

// remove ends the processes and leaves nothing that runs.
func (i *Installation) remove(ctx context.Context) error {
	err := i.Stop()
	objects, listErr := i.Kubectl(ctx, "get", "modelservices", "-o", "name")
	err = errors.Join(err, listErr)
	for _, object := range strings.Fields(objects) { // nobody is left who would let them go
		_, patchErr := i.Kubectl(ctx, "patch", object, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
		err = errors.Join(err, patchErr)
	}
	now := int64(0)
	background := metav1.DeletePropagationBackground
	deleteErr := i.Client.CoreV1().Namespaces().Delete(ctx, i.Namespace(), metav1.DeleteOptions{PropagationPolicy: &background})
	podsErr := i.Client.CoreV1().Pods(i.Namespace()).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
	return errors.Join(err, deleteErr, podsErr)
}

func (i *Installation) processes() []*dock.Process {
	return append(append([]*dock.Process{}, i.Controllers...), i.Gateways...)
}

// API implements scenario.Harness: one controller after the other.
func (i *Installation) API() string {
	return i.Controllers[i.turn.Add(1)%uint64(len(i.Controllers))].URL
}

// Gateway implements scenario.Harness.
func (i *Installation) Gateway() string { return i.Gateways[0].URL }

// Key implements scenario.Harness.
func (i *Installation) Key(who string) string { return i.Keys[who] }

// Crash implements scenario.Harness: kill -9 of every process of ours.
func (i *Installation) Crash(t testing.TB) {
	t.Helper()
	i.each(t, (*dock.Process).Kill)
}

// Start implements scenario.Harness.
func (i *Installation) Start(t testing.TB) {
	t.Helper()
	i.each(t, func(p *dock.Process) error { return p.Start(t.Context()) })
}

func (i *Installation) each(t testing.TB, do func(*dock.Process) error) {
	t.Helper()
	var all sync.WaitGroup
	for _, p := range i.processes() {
		all.Go(func() {
			if err := do(p); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// Engines implements scenario.Harness: the Pods of a reservation, also those
// that are ending.
func (i *Installation) Engines(t testing.TB, tenant, id string) int {
	t.Helper()
	return len(i.Pods(t, tenant, id))
}

// Pods are a reservation's Pods that have not ended.
func (i *Installation) Pods(t testing.TB, tenant, id string) []corev1.Pod {
	t.Helper()
	list, err := i.Client.CoreV1().Pods(i.Namespace()).List(t.Context(), metav1.ListOptions{LabelSelector: "modeldock.io/modelservice=" + Object(tenant, id)})
	if err != nil {
		t.Fatal(err)
	}
	var pods []corev1.Pod
	for _, p := range list.Items {
		if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			pods = append(pods, p)
		}
	}
	return pods
}

// Object is the name of a reservation's ModelService.
func Object(tenant, id string) string {
	return delivery.ObjectName(budget.Ref{Tenant: tenant, ID: id})
}

// Kubectl runs kubectl as the cluster's admin in the installation's namespace.
func (i *Installation) Kubectl(ctx context.Context, args ...string) (string, error) {
	return i.Ground.Cluster.Kubectl(ctx, append([]string{"--namespace", i.Namespace()}, args...)...)
}
