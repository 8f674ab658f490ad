//go:build cluster

package operator_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/operator"
)

func (w *world) gone(o client.Object, name string) bool {
	w.t.Helper()
	err := w.Get(w.ctx, client.ObjectKey{Namespace: w.ns, Name: name}, o)
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	return err != nil
}

// A deleted object stays, with its Service, until its last Pod is gone; a Pod
// that does not go is named with its node.
func TestReleaseWaitsForTheLastPod(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *operator.Options) { o.LongestStream = 2e9 })
	w.created("demo", func(m *v1alpha1.ModelService) { m.Spec.Replicas, m.Spec.Budget.FundedReplicas = 2, 2 })
	pods := w.serve("demo", 2)
	w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionTrue, delivery.Available)
	w.must(w.Delete(w.ctx, w.object("demo")))
	w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionFalse, delivery.Draining)
	w.living("demo", 0) // all of them drain: they are out of the endpoints
	w.end(&pods[0])
	w.eventually("the name of the Pod that does not go, and its node", func() string {
		// On a slow machine the one that has just ended is named at first.
		c := w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionFalse, delivery.ReleaseBlocked)
		if strings.Contains(c.Message, pods[1].Name) && strings.Contains(c.Message, node) {
			return ""
		}
		return c.Message
	})
	w.waitCondition("demo", v1alpha1.ConditionStalled, metav1.ConditionTrue, delivery.ReleaseBlocked)
	w.rest(3)
	if w.gone(&v1alpha1.ModelService{}, "demo") || w.gone(&corev1.Service{}, "demo") {
		t.Fatal("the object or its Service is gone though a Pod still holds its card")
	}
	if st := w.object("demo").Status; st.Replicas != 1 || len(st.Pods) != 1 || !st.Pods[0].Terminating {
		t.Errorf("status: %+v", st)
	}
	w.end(&pods[1])
	w.eventually("the end of the object", func() string {
		if !w.gone(&v1alpha1.ModelService{}, "demo") {
			return "it is there"
		}
		return ""
	})
	if !w.gone(&appsv1.Deployment{}, "demo") || !w.gone(&corev1.Service{}, "demo") {
		t.Error("a child outlived the object")
	}
}

// A Pod whose labels somebody changed is out of every watch and still holds a
// card: it is found by its annotation and ended.
func TestReleaseFindsPodsThatLostTheirLabels(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.created("demo")
	pod := w.serve("demo", 1)[0]
	edit(w, pod.Name, &corev1.Pod{}, func(p *corev1.Pod) { p.Labels = nil })
	w.living("demo", 1) // the ReplicaSet made another
	w.must(w.Delete(w.ctx, w.object("demo")))
	w.eventually("the end of the Pod without labels", func() string {
		for _, p := range w.pods("demo") {
			if p.DeletionTimestamp != nil {
				w.end(&p)
			}
		}
		p := &corev1.Pod{}
		if !w.gone(p, pod.Name) && p.DeletionTimestamp == nil {
			return "nobody ends it"
		}
		return ""
	})
	w.rest(3)
	if w.gone(&v1alpha1.ModelService{}, "demo") {
		t.Fatal("the object is gone though its Pod still holds a card")
	}
	w.end(&pod)
	w.eventually("the end of the object", func() string {
		if !w.gone(&v1alpha1.ModelService{}, "demo") {
			return "it is there"
		}
		return ""
	})
}

// A release also ends when somebody orphans the Pods in the middle of it.
func TestReleaseEndsOrphans(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.created("demo")
	w.serve("demo", 1)
	// The deletion of the object comes first, so that no new Deployment adopts
	// what the orphaning leaves.
	w.must(w.Delete(w.ctx, w.object("demo")))
	w.must(client.IgnoreNotFound(w.Delete(w.ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "demo"}},
		client.PropagationPolicy(metav1.DeletePropagationOrphan))))
	w.eventually("the end of the object", func() string {
		for _, p := range w.pods("demo") {
			if p.DeletionTimestamp != nil {
				w.end(&p)
			}
		}
		if w.gone(&v1alpha1.ModelService{}, "demo") {
			return ""
		}
		return fmt.Sprintf("%d Pods are left", len(w.pods("demo")))
	})
}

// Where ledgers let objects go, an object that claims no reservation is nobody's:
// nothing is written to it, nothing runs for it, and its maker can delete it.
func TestUnaccountedObjectIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *operator.Options) { o.LedgerLetsGo = true })
	w.created("demo")
	looked := func(more int64) {
		t.Helper()
		w.eventually("a look at it", func() string {
			if n := w.rounds.Load(); n < more {
				return fmt.Sprintf("%d looks", n)
			}
			return ""
		})
	}
	looked(1)
	before, rounds := w.object("demo").ResourceVersion, w.rounds.Load()
	touched := w.object("demo")
	touched.Labels = map[string]string{"touched": "yes"}
	w.must(w.Update(w.ctx, touched))
	looked(rounds + 1)
	if now := w.object("demo"); now.ResourceVersion == before || len(now.Finalizers) > 0 || len(now.Status.Conditions) > 0 {
		t.Errorf("the object is %+v", now)
	}
	if list := w.written(); len(list) > 0 {
		t.Errorf("it was written to: %v", list)
	}
	w.must(w.Delete(w.ctx, w.object("demo")))
	if !w.gone(&v1alpha1.ModelService{}, "demo") {
		t.Error("its maker cannot delete it")
	}
}
