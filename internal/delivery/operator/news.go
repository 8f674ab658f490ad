package operator

import (
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"modeldock.io/internal/delivery"
)

// newMetadata passes changes of what is kept of an object of which metadata
// alone is watched. A ReplicaSet's status changes at every step of its Pods,
// and nobody here reads it.
func newMetadata() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return !sameMetadata(e.ObjectOld, e.ObjectNew) }}
}

// newChild does not pass that a child of a held object is there: its creation is
// the operator's own doing, or follows from it.
func newChild(m *memory) predicate.Predicate {
	return predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool { return !m.quiet(e.Object) }}
}

// newPod passes of the Pods of a held object those that are ready or in trouble.
func newPod(m *memory) predicate.Predicate {
	news := func(o client.Object) bool {
		p, _ := o.(*corev1.Pod)
		return p == nil || !m.quiet(p) || !comes(p)
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return news(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return news(e.ObjectNew) },
	}
}

// comes reports whether a Pod is on its way to readiness and nothing else is to
// be said of it.
func comes(p *corev1.Pod) bool {
	reason := podCause(p, nil, time.Time{}, 0).reason
	return reason == delivery.Loading || reason == delivery.WaitingForNode
}

// newDeployment passes what is read of a Deployment. Its counts change at every
// step of its Pods, which are watched themselves.
func newDeployment(m *memory) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, _ := e.ObjectOld.(*appsv1.Deployment)
		after, _ := e.ObjectNew.(*appsv1.Deployment)
		if before == nil || after == nil {
			return true
		}
		if m.quiet(after) { // which revision it is, and that it was seen, is read when the Pods are ready
			return !sameMetadata(unnumbered(before), unnumbered(after)) || troubles(before) != troubles(after)
		}
		if !sameMetadata(before, after) {
			return true
		}
		seen := func(d *appsv1.Deployment) bool { return d.Status.ObservedGeneration >= d.Generation }
		return seen(before) != seen(after) || troubles(before) != troubles(after)
	}}
}

// unnumbered is a Deployment without the count of its revisions.
func unnumbered(d *appsv1.Deployment) metav1.Object {
	o := d.ObjectMeta
	o.Annotations = maps.Clone(o.Annotations)
	delete(o.Annotations, revisionAnnotation)
	return &o
}

// troubles are what a Deployment says that its Pods do not: that they are
// refused, and that it goes on no more.
func troubles(d *appsv1.Deployment) (out [2]string) {
	if c := deploymentCondition(d, appsv1.DeploymentReplicaFailure); c != nil && c.Status == corev1.ConditionTrue {
		out[0] = c.Reason + c.Message
	}
	if c := deploymentCondition(d, appsv1.DeploymentProgressing); c != nil && c.Status == corev1.ConditionFalse {
		out[1] = c.Reason + c.Message
	}
	return out
}

// othersNews passes what somebody else changed: the operator knows the status
// that it has just written.
func othersNews(m *memory) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !m.echo(client.ObjectKeyFromObject(e.ObjectNew), e.ObjectNew.GetResourceVersion()) || !sameMetadata(e.ObjectOld, e.ObjectNew)
	}}
}

func sameMetadata(a, b metav1.Object) bool {
	return a.GetUID() == b.GetUID() && a.GetGeneration() == b.GetGeneration() && (a.GetDeletionTimestamp() == nil) == (b.GetDeletionTimestamp() == nil) &&
		maps.Equal(a.GetLabels(), b.GetLabels()) && maps.Equal(a.GetAnnotations(), b.GetAnnotations()) && slices.Equal(a.GetFinalizers(), b.GetFinalizers()) &&
		equality.Semantic.DeepEqual(a.GetOwnerReferences(), b.GetOwnerReferences())
}
