//go:build cluster

package operator_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/delivery"
)

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// foreignDeployment is somebody's who knows nothing of ModelDock. It has no
// replicas, so that no controller writes its status later.
func foreignDeployment(ns, name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](0), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
			},
		},
	}
}

// A Deployment of the same name that is not ours stays byte for byte, while
// the object lives, and after; once it is gone, the object goes on by itself.
func TestForeignDeploymentIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *world, d *appsv1.Deployment){
		"no-owner": func(*world, *appsv1.Deployment) {},
		"other-owner": func(w *world, d *appsv1.Deployment) {
			other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "other"}}
			w.must(w.Create(w.ctx, other))
			d.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: other.UID, Controller: ptr.To(true)}}
		},
		"our-labels": func(_ *world, d *appsv1.Deployment) { // also those by which the operator watches
			d.Labels[v1alpha1.LabelManagedBy], d.Labels[v1alpha1.LabelModelService] = v1alpha1.ManagedBy, "demo"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, nil)
			theirs := foreignDeployment(w.ns, "demo")
			change(w, theirs)
			w.must(w.Create(w.ctx, theirs))
			w.eventually("the controllers' first status", func() string {
				if w.deployment("demo").Status.ObservedGeneration == 0 {
					return "not yet"
				}
				return ""
			})
			before := asJSON(w.deployment("demo"))
			w.created("demo")
			c := w.waitCondition("demo", v1alpha1.ConditionOwnershipConflict, metav1.ConditionTrue, delivery.NotOwned)
			owner := "nobody"
			if name == "other-owner" {
				owner = "ConfigMap other"
			}
			for _, want := range []string{"Deployment " + w.ns + "/demo", "metadata.ownerReferences", owner} {
				if !strings.Contains(c.Message, want) {
					t.Errorf("message %q does not name %q", c.Message, want)
				}
			}
			w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionFalse, delivery.NotOwned)
			w.waitEvent("demo", "NotOwned")
			w.rest(3)
			w.released("demo")
			if after := asJSON(w.deployment("demo")); after != before {
				t.Errorf("the Deployment changed from\n%s\nto\n%s", before, after)
			}

			w.created("demo")
			w.waitCondition("demo", v1alpha1.ConditionOwnershipConflict, metav1.ConditionTrue, delivery.NotOwned)
			w.must(w.Delete(w.ctx, w.deployment("demo")))
			w.serve("demo", 1)
			w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionTrue, delivery.Available)
			w.waitCondition("demo", v1alpha1.ConditionOwnershipConflict, metav1.ConditionFalse, delivery.Available)
		})
	}
}

// The same for a Service.
func TestForeignServiceIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	theirs := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "demo"},
		Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	w.must(w.Create(w.ctx, theirs))
	before := asJSON(theirs)
	w.created("demo")
	pod := w.living("demo", 1)[0] // a Service is made once a Pod has an address
	w.bind(&pod)
	w.tell(&pod, false, running())
	w.waitCondition("demo", v1alpha1.ConditionOwnershipConflict, metav1.ConditionTrue, delivery.NotOwned)
	w.released("demo")
	after := &corev1.Service{}
	w.must(w.Get(w.ctx, client.ObjectKeyFromObject(theirs), after))
	if asJSON(after) != before {
		t.Errorf("the Service changed from\n%s\nto\n%s", before, asJSON(after))
	}
}

func (w *world) waitEvent(object, reason string) {
	w.t.Helper()
	w.eventually("event "+reason, func() string {
		list := &eventsv1.EventList{}
		w.must(w.List(w.ctx, list, client.InNamespace(w.ns)))
		for _, e := range list.Items {
			if e.Regarding.Name == object && e.Reason == reason {
				return ""
			}
		}
		return fmt.Sprintf("%d other events", len(list.Items))
	})
}

// released deletes a ModelService and waits until it is gone, ending its Pods
// as a kubelet would.
func (w *world) released(name string) {
	w.t.Helper()
	w.must(w.Delete(w.ctx, w.object(name)))
	w.eventually("the end of "+name, func() string {
		for _, p := range w.pods(name) {
			if p.DeletionTimestamp != nil {
				w.end(&p)
			}
		}
		m := &v1alpha1.ModelService{}
		err := w.Get(w.ctx, client.ObjectKey{Namespace: w.ns, Name: name}, m)
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprint(err, asJSON(m.Status.Conditions))
	})
}
