//go:build cluster

package operator_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/operator"
)

// patience is how long a condition may take to come true.
const patience = 20 * time.Second

// world is a namespace of its own with an operator of its own.
type world struct {
	client.Client // the tester's own, without a cache

	t      *testing.T
	ctx    context.Context
	ns     string
	rounds atomic.Int64 // reconciles so far
	mu     sync.Mutex
	writes []string // requests of the operator that change something
}

// setup starts an operator in a fresh namespace that lets in only Pods of the
// strictest standard.
func setup(t *testing.T, change func(*operator.Options)) *world {
	t.Helper()
	scheme, err := operator.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(adminConfig, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &world{Client: c, t: t, ctx: ctx}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	w.must(c.Create(ctx, ns))
	w.ns = ns.Name
	w.grant()

	opts, err := operator.ManagerOptions(w.ns)
	w.must(err)
	opts.Controller.SkipNameValidation = ptr.To(true) // one process, many operators
	mgr, err := ctrl.NewManager(w.counted(operatorConfig()), opts)
	w.must(err)
	o := operator.Options{
		DrainDelay: time.Second, StuckAfter: time.Second, LongestStream: time.Second, Resync: time.Second,
		Now: func() time.Time { w.rounds.Add(1); return time.Now() },
	}
	if change != nil {
		change(&o)
	}
	w.must(operator.Setup(ctx, mgr, o))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the operator ended with %v", err)
		}
	})
	return w
}

// grant gives the operator in this namespace what an installation gives it in
// the models', and waits until the API server knows.
func (w *world) grant() {
	w.t.Helper()
	w.must(w.Create(w.ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "modeldock-operator"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "modeldock-operator"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "modeldock-system", Name: "modeldock-controller"}},
	}))
	own, err := client.New(operatorConfig(), client.Options{Scheme: w.Scheme()})
	w.must(err)
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := own.List(w.ctx, &corev1.PodList{}, client.InNamespace(w.ns))
		if err == nil {
			return
		}
		if !apierrors.IsForbidden(err) || time.Now().After(deadline) {
			w.t.Fatalf("the operator has no rights in %s: %v", w.ns, err)
		}
	}
}

// counted notes every request that is no read.
func (w *world) counted(c *rest.Config) *rest.Config {
	c.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet {
				w.mu.Lock()
				w.writes = append(w.writes, r.Method+" "+r.URL.Path)
				w.mu.Unlock()
			}
			return next.RoundTrip(r)
		})
	})
	return c
}

func (w *world) written() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.writes)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// eventually waits until check returns "", and fails with what it said last.
func (w *world) eventually(what string, check func() string) {
	w.t.Helper()
	last := ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if last = check(); last == "" {
			return
		}
		time.Sleep(20 * time.Millisecond) // between looks; the condition decides
	}
	w.t.Fatalf("%s did not happen in %v: %s", what, patience, last)
}

// service returns a ModelService that is not stored yet.
func (w *world) service(name string) *v1alpha1.ModelService {
	return &v1alpha1.ModelService{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name},
		Spec: v1alpha1.ModelServiceSpec{
			Tenant: "team-a", RequestID: name, Model: v1alpha1.Model{Name: "tiny", Version: "v1"},
			Engine: v1alpha1.Engine{Kind: "simulated", Env: []v1alpha1.EnvVar{{Name: "B", Value: "2"}, {Name: "A", Value: "1"}, {Name: "C", Value: "3"}}},
			GPU:    v1alpha1.GPU{MemoryMiB: 4096, Count: 1}, Replicas: 1,
			Scaling: v1alpha1.Scaling{Min: 1, Max: 4}, Budget: v1alpha1.Budget{FundedReplicas: 1},
			Traffic: v1alpha1.Traffic{Weight: 100}, ColdStart: v1alpha1.ColdStart{TimeoutSeconds: 60, MaxWaiting: 10},
		},
	}
}

func (w *world) created(name string, change ...func(*v1alpha1.ModelService)) *v1alpha1.ModelService {
	w.t.Helper()
	m := w.service(name)
	for _, c := range change {
		c(m)
	}
	w.must(w.Create(w.ctx, m))
	return m
}

func (w *world) object(name string) *v1alpha1.ModelService {
	w.t.Helper()
	m := &v1alpha1.ModelService{}
	w.must(w.Get(w.ctx, client.ObjectKey{Namespace: w.ns, Name: name}, m))
	return m
}

// edit changes an object as somebody with a client would.
func edit[T client.Object](w *world, name string, into T, change func(T)) T {
	w.t.Helper()
	w.eventually("the edit of "+name, func() string {
		if err := w.Get(w.ctx, client.ObjectKey{Namespace: w.ns, Name: name}, into); err != nil {
			return err.Error()
		}
		change(into)
		if err := w.Update(w.ctx, into); err != nil {
			return err.Error()
		}
		return ""
	})
	return into
}

func (w *world) deployment(name string) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	if err := w.Get(w.ctx, client.ObjectKey{Namespace: w.ns, Name: name}, d); err != nil {
		if !apierrors.IsNotFound(err) {
			w.t.Fatal(err)
		}
		return nil
	}
	return d
}

// waitCondition waits for a condition's status and reason, for the object's
// present generation.
func (w *world) waitCondition(name, kind string, status metav1.ConditionStatus, reason delivery.Reason) metav1.Condition {
	w.t.Helper()
	var found metav1.Condition
	w.eventually(fmt.Sprintf("%s %s=%s (%s)", name, kind, status, reason), func() string {
		m := w.object(name)
		c := meta.FindStatusCondition(m.Status.Conditions, kind)
		if c == nil {
			return "there is no condition " + kind
		}
		found = *c
		if c.Status != status || c.Reason != string(reason) || c.ObservedGeneration != m.Generation || m.Status.ObservedGeneration != m.Generation {
			return fmt.Sprintf("%s=%s (%s) of generation %d, now %d: %s", kind, c.Status, c.Reason, c.ObservedGeneration, m.Generation, c.Message)
		}
		return ""
	})
	return found
}
