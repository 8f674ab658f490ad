//go:build cluster

package kube_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/kube"
)

func TestApplyMakesOneObjectAndKeepsItUpToDate(t *testing.T) {
	t.Parallel()
	b := setup(t, server, server.REST)
	d := desired(b, "demo")
	d.Model.Env = map[string]string{"B": "2", "A": "1"}
	obj := b.apply(d)
	ms := b.stored(d.Name)
	if ms == nil || string(ms.UID) != obj.UID || obj.Namespace != b.namespace || obj.Name != d.Name {
		t.Fatalf("applied %+v, stored %+v", obj, ms)
	}
	if a := ms.Annotations; a[v1alpha1.AnnotationTenant] != "team-a" || a[v1alpha1.AnnotationID] != "demo" ||
		a[v1alpha1.AnnotationLedger] != b.ledger || a[v1alpha1.AnnotationGeneration] != "1" || !slices.Contains(ms.Finalizers, v1alpha1.FinalizerLedger) {
		t.Fatalf("metadata %+v", ms.ObjectMeta)
	}
	if ms.Spec.Budget.FundedReplicas != 1 || ms.Spec.Replicas != 1 || ms.Spec.Engine.Kind != "simulated" || ms.Spec.GPU.MemoryMiB != 4096 {
		t.Fatalf("spec %+v", ms.Spec)
	}
	// 1. The same again, also at once and before any watch told of it: no write.
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if again, err := b.target.Apply(t.Context(), d); err != nil || again != obj {
				t.Errorf("applied again: %+v, %v", again, err)
			}
		})
	}
	all.Wait()
	if again := b.stored(d.Name); again.ResourceVersion != ms.ResourceVersion {
		t.Fatalf("an apply without a change wrote: %s, then %s", ms.ResourceVersion, again.ResourceVersion)
	}
	// 2. A later generation, and more replicas.
	later := d
	later.Generation, later.Funded, later.Model.Traffic.Weight = 3, 2, 7
	if got := b.apply(later); got != obj {
		t.Fatalf("another object: %+v", got)
	}
	ms = b.stored(d.Name)
	if ms.Spec.Traffic.Weight != 7 || ms.Spec.Budget.FundedReplicas != 2 || ms.Spec.Replicas != 2 || ms.Annotations[v1alpha1.AnnotationGeneration] != "3" {
		t.Fatalf("after the change %+v", ms.Spec)
	}
	// 3. An old intent that comes late changes nothing.
	if got := b.apply(d); got != obj || b.stored(d.Name).ResourceVersion != ms.ResourceVersion {
		t.Fatal("an old intent was applied")
	}
}

// What others write beside delivery stays, and a scaler's number is its own.
func TestApplyLeavesAloneWhatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	b := setup(t, server, server.REST)
	d := desired(b, "demo")
	d.Model.Replicas.Max = 4
	b.apply(d)
	ms := b.stored(d.Name)
	ms.Labels = map[string]string{"team": "blue"}
	ms.Spec.Replicas = 0
	b.must(b.api.Update(t.Context(), ms))
	d.Generation, d.Funded = 2, 3
	b.apply(d)
	if ms = b.stored(d.Name); ms.Spec.Replicas != 0 || ms.Spec.Budget.FundedReplicas != 3 || ms.Labels["team"] != "blue" {
		t.Fatalf("labels %v, spec %+v", ms.Labels, ms.Spec)
	}
}

// C031: the object was made, the answer was lost, and the call says in time
// which object it was.
func TestCreateWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	b, p := setupBehind(t)
	p.Lose(func(r *http.Request) bool { return r.Method == http.MethodPost })
	d := desired(b, "demo")
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	obj, err := b.target.Apply(ctx, d)
	b.must(err)
	if ms := b.stored(d.Name); ms == nil || string(ms.UID) != obj.UID {
		t.Fatalf("applied %+v, stored %+v", obj, ms)
	}
	// Nothing at all comes back: the call ends with its context, and the next
	// one finds the same object.
	e := desired(b, "other")
	p.Lose(func(*http.Request) bool { return true })
	short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := b.target.Apply(short, e); err == nil {
		t.Fatal("applied without an answer")
	}
	p.Lose(nil)
	b.eventually("the second attempt", func() error { obj, err = b.target.Apply(t.Context(), e); return err })
	var list v1alpha1.ModelServiceList
	b.must(b.api.List(t.Context(), &list, client.InNamespace(b.namespace)))
	if len(list.Items) != 2 || string(b.stored(e.Name).UID) != obj.UID {
		t.Fatalf("%d objects, applied %+v", len(list.Items), obj)
	}
}

// C032: somebody else's object is left byte for byte, by release too.
func TestForeignObjectIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*v1alpha1.ModelService){
		"without an identity": func(ms *v1alpha1.ModelService) { ms.Annotations = nil },
		"another ledger's":    func(ms *v1alpha1.ModelService) { ms.Annotations[v1alpha1.AnnotationLedger] = "ledger-2" },
		"another request's":   func(ms *v1alpha1.ModelService) { ms.Annotations[v1alpha1.AnnotationID] = "other" },
		"it only claims to be": func(ms *v1alpha1.ModelService) {
			ms.Spec.RequestID = "other"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, server, server.REST)
			d := desired(b, "demo")
			foreign := &v1alpha1.ModelService{
				ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: d.Name, Annotations: map[string]string{
					v1alpha1.AnnotationTenant: "team-a", v1alpha1.AnnotationID: "demo", v1alpha1.AnnotationLedger: b.ledger,
				}},
				Spec: v1alpha1.ModelServiceSpec{
					Tenant: "team-a", RequestID: "demo", Model: v1alpha1.Model{Name: "mine"}, Engine: v1alpha1.Engine{Kind: "vllm"},
					GPU: v1alpha1.GPU{MemoryMiB: 1}, Scaling: v1alpha1.Scaling{Min: 1, Max: 1}, Traffic: v1alpha1.Traffic{Weight: 1},
					ColdStart: v1alpha1.ColdStart{TimeoutSeconds: 1},
				},
			}
			change(foreign)
			b.must(b.api.Create(t.Context(), foreign))
			before := b.stored(d.Name)
			for range 3 {
				if _, err := b.target.Apply(t.Context(), d); !errors.Is(err, delivery.ErrNameTaken) || !strings.Contains(err.Error(), string(before.UID)) {
					t.Fatalf("apply: %v", err)
				}
			}
			var told eventsv1.EventList
			b.must(b.api.List(t.Context(), &told, client.InNamespace(b.namespace)))
			if len(told.Items) != 1 || told.Items[0].Reason != "NameTaken" || told.Items[0].Regarding.UID != before.UID || !strings.Contains(told.Items[0].Note, "left untouched") {
				t.Fatalf("events after three attempts: %+v", told.Items)
			}
			b.must(b.target.Delete(t.Context(), d.Ref, ""))
			b.must(b.target.Delete(t.Context(), d.Ref, "not-its-uid"))
			b.must(b.target.LetGo(t.Context(), d.Ref, string(before.UID)))
			if st := b.observe(d.Ref); st.Exists || st.Reason != delivery.NameTaken {
				t.Fatalf("observed %+v", st)
			}
			b.eventually("it is listed as somebody else's", func() error {
				list, err := b.target.List(t.Context())
				if err != nil || len(list) != 1 || list[0].Reason != delivery.NotOwned || list[0].Ledger == b.ledger {
					return fmt.Errorf("%+v: %w", list, errors.Join(err, errNotYet))
				}
				return nil
			})
			after := b.stored(d.Name)
			if after == nil || after.ResourceVersion != before.ResourceVersion || after.DeletionTimestamp != nil {
				t.Fatalf("it was touched: %+v", after)
			}
			b.must(b.api.Delete(t.Context(), foreign))
			if obj := b.apply(d); obj.UID == string(before.UID) || obj.UID == "" {
				t.Fatalf("after it is gone: %+v", obj)
			}
		})
	}
}

func TestApplyNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	b := setup(t, server, server.REST, func(c *kube.Config) { c.Namespace = func(string) string { return "nowhere" } })
	if _, err := b.target.Apply(t.Context(), desired(b, "demo")); err == nil || !strings.Contains(err.Error(), "make the namespace nowhere") {
		t.Errorf("without the namespace: %v", err)
	}
	d := desired(b, "demo")
	d.Ledger = "ledger-2"
	if _, err := b.target.Apply(t.Context(), d); err == nil || !strings.Contains(err.Error(), "ledger-2") {
		t.Errorf("another ledger's: %v", err)
	}
	d = desired(b, "demo")
	d.Name = delivery.ObjectName(budget.Ref{Tenant: "team-b", ID: "demo"})
	if _, err := b.target.Apply(t.Context(), d); err == nil {
		t.Error("another request's name is applied")
	}
}
