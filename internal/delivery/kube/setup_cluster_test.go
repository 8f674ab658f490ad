//go:build cluster

package kube_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/kube"
	"modeldock.io/internal/modelspec"
	"modeldock.io/test/apiserver"
)

const patience = 60 * time.Second

// server is shared by the tests of this package, each in its own namespace.
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

// bench is a namespace of its own with a target that looks at it alone.
type bench struct {
	*testing.T
	api       client.WithWatch
	namespace string
	ledger    string
	cfg       kube.Config
	target    *kube.Target
	changes   atomic.Int64
}

var namespaces atomic.Int64

// setup makes a namespace on s and a target that reaches it by cfg.
func setup(t *testing.T, s *apiserver.Server, cfg *rest.Config, more ...func(*kube.Config)) *bench {
	t.Helper()
	b := &bench{T: t, api: s.Client, namespace: fmt.Sprintf("test-%d", namespaces.Add(1)), ledger: "ledger-1"}
	b.must(b.api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}))
	c := kube.Config{
		REST: cfg, Ledger: b.ledger, Watched: b.namespace, Namespace: func(string) string { return b.namespace },
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), OnChange: func(budget.Ref) { b.changes.Add(1) },
	}
	for _, change := range more {
		change(&c)
	}
	b.ledger, b.cfg = c.Ledger, c
	var err error
	b.target, err = kube.New(c)
	b.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); b.target.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	b.eventually("the target sees the API server", func() error { _, err := b.target.List(t.Context()); return err })
	return b
}

// setupBehind puts a proxy between the target and the API server.
func setupBehind(t *testing.T) (*bench, *apiserver.Proxy) {
	t.Helper()
	p, err := apiserver.NewProxy(server.REST)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return setup(t, server, p.REST), p
}

// setupIn is another process that delivers to the same place, and asks the API
// server directly.
func setupIn(b *bench) *kube.Target {
	b.Helper()
	c := b.cfg
	c.REST = server.REST
	other, err := kube.New(c)
	b.must(err)
	return other
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// eventually waits until f has nothing to say.
func (b *bench) eventually(what string, f func() error) {
	began := time.Now()
	defer func() { b.Logf("%s: after %s", what, time.Since(began)) }()
	b.Helper()
	end := time.Now().Add(patience)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			b.Fatalf("%s: not within %s: %v", what, patience, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func desired(b *bench, id string) delivery.Desired {
	ref := budget.Ref{Tenant: "team-a", ID: id}
	return delivery.Desired{Ref: ref, Ledger: b.ledger, Name: delivery.ObjectName(ref), Generation: 1, Model: modelspec.Default(id), Funded: 1}
}

func (b *bench) apply(d delivery.Desired) budget.Object {
	b.Helper()
	obj, err := b.target.Apply(b.Context(), d)
	b.must(err)
	return obj
}

func (b *bench) observe(ref budget.Ref) delivery.Status {
	b.Helper()
	st, err := b.target.Observe(b.Context(), ref)
	b.must(err)
	return st
}

// stored reads the object of a name; nil if there is none.
func (b *bench) stored(name string) *v1alpha1.ModelService {
	b.Helper()
	var ms v1alpha1.ModelService
	err := b.api.Get(b.Context(), client.ObjectKey{Namespace: b.namespace, Name: name}, &ms)
	if apierrors.IsNotFound(err) {
		return nil
	}
	b.must(err)
	return &ms
}

// pod is one of an object's Pods as the operator makes it, on a node, so that
// it terminates for as long as nobody there says that it ended.
func (b *bench) pod(obj budget.Object, name string) *corev1.Pod {
	b.Helper()
	var ms v1alpha1.ModelService
	b.must(b.api.Get(b.Context(), client.ObjectKey{Namespace: b.namespace, Name: obj.Name}, &ms))
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.namespace, Name: name, Labels: map[string]string{v1alpha1.LabelModelService: obj.Name},
			Annotations: map[string]string{
				v1alpha1.AnnotationTenant: ms.Spec.Tenant, v1alpha1.AnnotationID: ms.Spec.RequestID, v1alpha1.AnnotationLedger: b.ledger,
				v1alpha1.AnnotationObjectUID: obj.UID, v1alpha1.AnnotationModel: ms.Spec.Model.Name,
			},
		},
		Spec: corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: v1alpha1.ContainerName, Image: "engine"}}},
	}
	b.must(b.api.Create(b.Context(), p))
	return p
}

// end removes a Pod as its node does once the last container ended.
func (b *bench) end(p *corev1.Pod) {
	b.Helper()
	b.must(client.IgnoreNotFound(b.api.Delete(b.Context(), p, client.GracePeriodSeconds(0))))
}

func gone(st delivery.Status) error {
	if st.Exists {
		return fmt.Errorf("it is still there: %s: %s", st.Reason, st.Message)
	}
	return nil
}

var errNotYet = errors.New("not yet")
