// Package kube is the delivery account's target on a cluster: a reservation's
// object is a ModelService on the API server. What was written is read back
// from the API server itself; what runs is followed by watches, which are
// believed only while they are heard of; and that nothing is left, which gives
// slots back, is always asked anew.
package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/kube"
)

const (
	// agent names delivery to the API server, and in the fields it manages.
	agent = "modeldock-delivery"
	// DefaultNamespace is where objects are made unless Config says otherwise.
	DefaultNamespace = "modeldock"
	// callWait bounds a call whose context has no end of its own.
	callWait = 10 * time.Second
)

// Config is what a target needs.
type Config struct {
	REST   *rest.Config
	Ledger string // the ledger's incarnation; objects of others are left alone
	// Namespace is where a tenant's objects are made; nil: all in
	// DefaultNamespace. It may change: objects stay where they are.
	Namespace func(tenant string) string
	// Watched is the one namespace that is looked at; empty: all of them, which
	// it must be unless Namespace names one only.
	Watched string
	// Cards of the cluster; nil: no more is told of them than stands on Pods.
	Cards  Cards
	Clock  func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: slog.Default
	// OnChange hears of every object that may look different; nil: nobody. It
	// must not block.
	OnChange func(budget.Ref)
}

// Target delivers to an API server. Safe for concurrent use.
type Target struct {
	cfg      Config
	live     client.WithWatch
	logs     typedcore.PodsGetter
	services *kube.Followed[*v1alpha1.ModelService]
	pods     *kube.Followed[*corev1.Pod]
	proofs   *proofs

	reaching  sync.Mutex
	reachedAt time.Time // of the latest question whether the API server is there
	away      error     // its answer
}

var _ delivery.Honouring = (*Target)(nil)

// New prepares a target; Run follows the API server, which need not be there yet.
func New(cfg Config) (*Target, error) {
	if cfg.REST == nil || cfg.Ledger == "" {
		return nil, errors.New("prepare the target: it needs the API server's address and the ledger's incarnation")
	}
	if cfg.Namespace == nil {
		cfg.Namespace = func(string) string { return DefaultNamespace }
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.OnChange == nil {
		cfg.OnChange = func(budget.Ref) {}
	}
	live, err := kube.NewClient(cfg.REST, agent)
	if err != nil {
		return nil, err
	}
	logs, err := typedcore.NewForConfig(kube.Configured(cfg.REST, agent))
	if err != nil {
		return nil, fmt.Errorf("make the client for logs: %w", err)
	}
	t := &Target{cfg: cfg, live: live, logs: logs, proofs: newProofs(cfg.Clock)}
	t.services = kube.Follow(kube.Source{
		Client: live, Namespace: cfg.Watched, Logger: cfg.Logger,
		Index:   client.Object.GetName,
		NewList: func() client.ObjectList { return &v1alpha1.ModelServiceList{} },
	}, t.serviceChanged)
	t.pods = kube.Follow(kube.Source{
		Client: live, Namespace: cfg.Watched, Label: v1alpha1.LabelModelService, Logger: cfg.Logger,
		Index: serviceName, Slim: slimPod,
		NewList: func() client.ObjectList { return &corev1.PodList{} },
	}, t.podChanged)
	return t, nil
}

// slimPod drops of a Pod's specification what neither a status nor an operator
// that listens to this list speaks of: most of it.
func slimPod(o client.Object) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	slim := corev1.PodSpec{NodeName: p.Spec.NodeName, SchedulerName: p.Spec.SchedulerName, ResourceClaims: p.Spec.ResourceClaims}
	for _, c := range p.Spec.Containers {
		slim.Containers = append(slim.Containers, corev1.Container{Name: c.Name, Ports: c.Ports})
	}
	p.Spec = slim
}

// Run follows ModelServices and their Pods until ctx ends.
func (t *Target) Run(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { t.services.Run(ctx, &v1alpha1.ModelService{}) })
	both.Go(func() { t.pods.Run(ctx, &corev1.Pod{}) })
	both.Wait()
}

func (t *Target) serviceChanged(ms *v1alpha1.ModelService) {
	if ledgerOf(ms) != t.cfg.Ledger {
		return
	}
	if f := ms.Status.LastFailure; f != nil {
		t.proofs.failed(refOf(ms).Tenant, ms.Name, string(ms.UID), failure(f))
	}
	t.cfg.OnChange(refOf(ms))
}

func (t *Target) podChanged(pod *corev1.Pod) {
	if ledgerOf(pod) != t.cfg.Ledger {
		return
	}
	ms := t.podContext(pod)
	ran := replica(pod, ms)
	t.dress(&ran, pod, ms)
	t.proofs.ran(refOf(pod).Tenant, serviceName(pod), string(carried(pod)), ran)
	t.cfg.OnChange(refOf(pod))
}

// podContext is the object that a Pod runs for, as far as it is known here.
func (t *Target) podContext(pod *corev1.Pod) *v1alpha1.ModelService {
	ms, _ := t.services.Get(pod.Namespace, serviceName(pod))
	if ms == nil || ms.UID != carried(pod) {
		return nil
	}
	return ms
}

// serviceName is the ModelService that a child says it belongs to.
func serviceName(child client.Object) string { return child.GetLabels()[v1alpha1.LabelModelService] }

// bounded gives a call without an end one.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ends := ctx.Deadline(); ends {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, callWait)
}
