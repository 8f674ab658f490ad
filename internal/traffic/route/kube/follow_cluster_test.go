//go:build cluster

package kube

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/traffic"
	"modeldock.io/test/apiserver"
)

const patience = 60 * time.Second

var server *apiserver.Server

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	log.SetLogger(logr.Discard())
	dir, err := os.MkdirTemp("", "modeldock-apiserver-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		server, err = apiserver.Start(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAIL: the tests of a cluster need an API server:", err)
		return 1
	}
	defer func() {
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "FAIL: stop the API server:", err)
			code = 1
		}
	}()
	return m.Run()
}

// bench is a namespace whose endpoints are followed through a proxy.
type bench struct {
	*testing.T
	namespace string
	proxy     *apiserver.Proxy
	follower  *Follower

	mu    sync.Mutex
	lists [][]traffic.Endpoint
}

func setup(t *testing.T, namespace string) *bench {
	t.Helper()
	b := &bench{T: t, namespace: namespace}
	b.must(server.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	var err error
	b.proxy, err = apiserver.NewProxy(server.REST)
	b.must(err)
	t.Cleanup(b.proxy.Close)
	b.follower, err = New(Config{
		REST: b.proxy.REST, Namespace: namespace, Ledger: "ledger-1", Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		OnChange: func(list []traffic.Endpoint) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.lists = append(b.lists, list)
		},
	})
	b.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); b.follower.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return b
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// shown is the list told last, and how many were told.
func (b *bench) shown() (string, int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.lists) == 0 {
		return "nothing yet", 0
	}
	return strings.Join(addresses(b.lists[len(b.lists)-1]), " "), len(b.lists)
}

func (b *bench) shows(want string) {
	b.Helper()
	end := time.Now().Add(patience)
	for {
		got, _ := b.shown()
		if got == want {
			return
		}
		if time.Now().After(end) {
			b.Fatalf("it shows %q, not %q", got, want)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// current waits until the follower says that it hears, or does not hear, of
// what happens.
func (b *bench) current(want bool) {
	b.Helper()
	end := time.Now().Add(patience)
	for {
		err := b.follower.Current()
		if (err == nil) == want {
			return
		}
		if time.Now().After(end) {
			b.Fatalf("it says %v, and being current is %v", err, want)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (b *bench) service(name string) {
	b.Helper()
	svc := service(name)
	svc.Namespace = b.namespace
	svc.Spec = corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Name: v1alpha1.PortName, Port: 8000}}}
	b.must(server.Client.Create(b.Context(), svc))
}

func (b *bench) slice(name, svc string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	b.Helper()
	s := slice(svc, endpoints...)
	s.Namespace, s.Name = b.namespace, name
	b.must(server.Client.Create(b.Context(), s))
	return s
}

func TestFollowsServicesAndSlices(t *testing.T) {
	t.Parallel()
	b := setup(t, "follow")
	b.shows("") // told once, although there is nothing
	s := b.slice("one", "md", endpoint("x", "10.0.0.1"))
	b.service("md")
	b.shows("x=10.0.0.1:8000")
	two := b.slice("two", "md", endpoint("y", "10.0.0.2"))
	b.shows("x=10.0.0.1:8000 y=10.0.0.2:8000")
	s.Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)}
	b.must(server.Client.Update(t.Context(), s))
	b.shows("y=10.0.0.2:8000")
	two.Endpoints = nil
	b.must(server.Client.Update(t.Context(), two))
	b.shows("")
	two.Endpoints = []discoveryv1.Endpoint{endpoint("z", "10.0.0.3")}
	b.must(server.Client.Update(t.Context(), two))
	b.shows("z=10.0.0.3:8000")
	// What changes nothing is not told.
	_, told := b.shown()
	two.Labels["seen"] = "yes"
	b.must(server.Client.Update(t.Context(), two))
	b.slice("three", "md", endpoint("w", "10.0.0.4"))
	b.shows("w=10.0.0.4:8000 z=10.0.0.3:8000")
	if _, now := b.shown(); now != told+1 {
		t.Fatalf("told %d times of one change", now-told)
	}
	svc := service("md")
	svc.Namespace = b.namespace
	b.must(server.Client.Delete(t.Context(), svc))
	b.shows("")
}

// C071: during a cut the endpoints stay; what was deleted and added meanwhile
// is right soon after it.
func TestWatchGapIsMended(t *testing.T) {
	t.Parallel()
	b := setup(t, "gap")
	b.service("md")
	one := b.slice("one", "md", endpoint("x", "10.0.0.1"))
	b.shows("x=10.0.0.1:8000")
	_, told := b.shown()
	b.proxy.Cut()
	b.must(server.Client.Delete(t.Context(), one))
	b.slice("two", "md", endpoint("y", "10.0.0.2"))
	b.current(false)
	if got, now := b.shown(); got != "x=10.0.0.1:8000" || now != told {
		t.Fatalf("during the cut it shows %q", got)
	}
	b.proxy.Mend()
	b.shows("y=10.0.0.2:8000")
	b.current(true)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, list := range b.lists[told:] {
		if slices.ContainsFunc(list, func(e traffic.Endpoint) bool { return e.UID == "x" }) {
			t.Fatalf("a ghost was told after the cut: %v", b.lists[told:])
		}
	}
}

// C067 at its size: 250 endpoints in three slices.
func TestManyEndpoints(t *testing.T) {
	t.Parallel()
	b := setup(t, "many")
	b.service("md")
	var want []string
	var first *discoveryv1.EndpointSlice
	for i, size := range []int{100, 100, 50} {
		var list []discoveryv1.Endpoint
		for j := range size {
			uid := fmt.Sprintf("p-%d-%03d", i, j)
			list = append(list, endpoint(uid, fmt.Sprintf("10.%d.0.%d", i, j)))
			want = append(want, fmt.Sprintf("%s=10.%d.0.%d:8000", uid, i, j))
		}
		s := b.slice(fmt.Sprintf("s-%d", i), "md", list...)
		if i == 0 {
			first = s
		}
	}
	b.shows(strings.Join(want, " "))
	b.must(server.Client.Delete(t.Context(), first))
	b.shows(strings.Join(want[100:], " "))
}
