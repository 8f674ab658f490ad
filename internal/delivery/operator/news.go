package operator

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// newMetadata passes changes of what is kept of an object of which metadata
// alone is watched. A ReplicaSet's status changes at every step of its Pods,
// and nobody here reads it.
func newMetadata() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return !sameMetadata(e.ObjectOld, e.ObjectNew) }}
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
