//go:build cluster

package kube_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/kube"
)

func TestDeleteIsBoundToTheUID(t *testing.T) {
	t.Parallel()
	b := setup(t, server, server.REST)
	d := desired(b, "demo")
	obj := b.apply(d)
	b.must(b.target.Delete(t.Context(), d.Ref, "00000000-0000-0000-0000-000000000000"))
	if ms := b.stored(d.Name); ms == nil || ms.DeletionTimestamp != nil {
		t.Fatalf("deleted under another UID: %+v", ms)
	}
	b.must(b.target.LetGo(t.Context(), d.Ref, obj.UID)) // it is not being deleted
	if ms := b.stored(d.Name); len(ms.Finalizers) != 1 {
		t.Fatalf("let go without a deletion: %+v", ms.ObjectMeta)
	}
	b.must(b.target.Delete(t.Context(), d.Ref, obj.UID))
	b.must(b.target.Delete(t.Context(), d.Ref, obj.UID))
	if st := b.observe(d.Ref); !st.Exists || st.DeletingAt.IsZero() || st.Reason != delivery.Draining {
		t.Fatalf("while it goes: %+v", st)
	}
	if _, err := b.target.Apply(t.Context(), d); err == nil || !strings.Contains(err.Error(), "tried again once it is gone") {
		t.Fatalf("applied onto what goes: %v", err)
	}
	b.must(b.target.LetGo(t.Context(), d.Ref, "another"))
	if b.stored(d.Name) == nil {
		t.Fatal("let go under another UID")
	}
	b.must(b.target.LetGo(t.Context(), d.Ref, obj.UID))
	if st := b.observe(d.Ref); st.Exists || b.stored(d.Name) != nil {
		t.Fatalf("after it was let go: %+v", st)
	}
	b.must(b.target.LetGo(t.Context(), d.Ref, obj.UID))
	b.must(b.target.Delete(t.Context(), d.Ref, obj.UID))
	if again := b.apply(d); again.UID == obj.UID {
		t.Fatal("it came back under its UID")
	}
}

// C132: the object is there as long as any Pod that carried its UID, and as
// long as something would make one.
func TestObjectIsThereUntilItsLastPodIsGone(t *testing.T) {
	t.Parallel()
	b := setup(t, server, server.REST)
	d := desired(b, "demo")
	obj := b.apply(d)
	one, two := b.pod(obj, "pod-1"), b.pod(obj, "pod-2")
	dep := deployment(b, obj)
	b.must(b.target.Delete(t.Context(), d.Ref, obj.UID))
	b.must(b.api.Delete(t.Context(), one)) // it terminates, for 30 s by default
	held := func(what string, pods int) {
		t.Helper()
		b.must(b.target.LetGo(t.Context(), d.Ref, obj.UID))
		if st := b.observe(d.Ref); !st.Holds(obj.UID) || len(st.Replicas) != pods || b.stored(d.Name) == nil {
			t.Fatalf("%s: %d Pods of %d, %+v", what, len(st.Replicas), pods, st)
		}
	}
	held("one Pod terminates", 2)
	if r := b.observe(d.Ref).Replicas[0]; r.Phase != delivery.PhaseTerminating || r.UID != string(one.UID) || r.Node != "node-1" {
		t.Fatalf("replica %+v", r)
	}
	b.end(one)
	held("one Pod is left", 1)
	b.end(two)
	held("its Deployment is left", 0)
	b.must(b.api.Delete(t.Context(), dep))
	b.must(b.target.LetGo(t.Context(), d.Ref, obj.UID))
	b.must(gone(b.observe(d.Ref)))
}

func deployment(b *bench, obj budget.Object) *appsv1.Deployment {
	b.Helper()
	of := map[string]string{v1alpha1.LabelModelService: obj.Name}
	dep := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.namespace, Name: obj.Name, Labels: of,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "modeldock.io/v1alpha1", Kind: "ModelService", Name: obj.Name, UID: types.UID(obj.UID)}},
		},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: of},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: of}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "engine", Image: "x"}}}},
		},
	}
	b.must(b.api.Create(b.Context(), dep))
	return dep
}

// An object whose finalizer was taken away by force leaves its Pods behind:
// they still hold their cards, also when somebody takes the name.
func TestOrphanedPodsHoldTheirObject(t *testing.T) {
	t.Parallel()
	b := setup(t, server, server.REST)
	d := desired(b, "demo")
	obj := b.apply(d)
	pod := b.pod(obj, "pod-1")
	b.eventually("the Pod is seen", func() error {
		if st := b.observe(d.Ref); len(st.Replicas) != 1 {
			return fmt.Errorf("%+v", st)
		}
		return nil
	})
	force(b, d.Name)
	b.eventually("the object is missed", func() error {
		if st := b.observe(d.Ref); !st.Exists || !st.Missing || !st.Holds(obj.UID) || len(st.Replicas) != 1 || st.Ledger != b.ledger {
			return fmt.Errorf("%w: %+v", errNotYet, st)
		}
		return nil
	})
	b.eventually("the list says so too", func() error {
		list, err := b.target.List(t.Context())
		if err != nil || len(list) != 1 || !list[0].Missing || list[0].Ref != d.Ref {
			return fmt.Errorf("%+v: %w", list, errors.Join(err, errNotYet))
		}
		return nil
	})
	again := b.apply(d) // nobody does; if somebody did, the old Pod would still count
	if st := b.observe(d.Ref); st.Object.UID != again.UID || len(st.Replicas) != 0 {
		b.eventually("the new object is seen", func() error {
			if st := b.observe(d.Ref); st.Object.UID != again.UID || len(st.Replicas) != 0 {
				return fmt.Errorf("%+v", st)
			}
			return nil
		})
	}
	b.must(b.target.Delete(t.Context(), d.Ref, again.UID))
	if st := b.observe(d.Ref); !st.Holds(obj.UID) || !st.Holds(again.UID) {
		t.Fatalf("the old Pod is forgotten: %+v", st)
	}
	b.end(pod)
	b.must(b.target.LetGo(t.Context(), d.Ref, again.UID))
	b.must(gone(b.observe(d.Ref)))
}

// force removes an object without regard to its finalizer.
func force(b *bench, name string) {
	b.Helper()
	ms := b.stored(name)
	b.must(b.api.Delete(b.Context(), ms))
	b.must(b.api.Patch(b.Context(), ms, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	b.eventually("the object is gone", func() error {
		if b.stored(name) != nil {
			return errNotYet
		}
		return nil
	})
}

// Two installations on one cluster may have requests of one name: neither sees
// the other's Pods as its own.
func TestTwoInstallations(t *testing.T) {
	t.Parallel()
	everywhere := func(ledger string) func(*kube.Config) {
		return func(c *kube.Config) { c.Watched, c.Ledger = "", ledger }
	}
	a, b := setup(t, server, server.REST, everywhere("ledger-a")), setup(t, server, server.REST, everywhere("ledger-b"))
	d, e := desired(a, "twice"), desired(b, "twice")
	mine, other := a.apply(d), b.apply(e)
	if mine.Name != other.Name || mine.UID == other.UID {
		t.Fatalf("objects %+v and %+v", mine, other)
	}
	pod := a.pod(mine, "pod-1")
	a.eventually("both see the Pod", func() error {
		if st := a.observe(d.Ref); len(st.Replicas) != 1 || b.changes.Load() == 0 {
			return fmt.Errorf("%+v", st)
		}
		return nil
	})
	if st := b.observe(e.Ref); len(st.Replicas) != 0 || len(st.Earlier) != 0 || st.Object != other {
		t.Fatalf("the other one shows %+v", st)
	}
	b.must(b.target.Delete(t.Context(), e.Ref, other.UID))
	b.must(b.target.LetGo(t.Context(), e.Ref, other.UID))
	b.must(gone(b.observe(e.Ref)))
	if st := a.observe(d.Ref); st.Object != mine || !st.DeletingAt.IsZero() {
		t.Fatalf("the first one shows %+v", st)
	}
	a.end(pod)
}
