// Package operator is account 2 on a cluster: it turns a ModelService into a
// Deployment and a headless Service, and writes the status from what is really
// there. The decisions are pure: Build (what should be there), Plan (what to do
// about it) and Judge (what is true); reconcile.go reads, acts and reports.
package operator

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"modeldock.io/api/v1alpha1"
)

// FieldManager is the name under which the operator writes.
const FieldManager = "modeldock"

const controllerName = "modelservice"

// Bounds of the wait after an error. The cause may end at any time, so the
// longest wait is short.
const (
	firstRetry   = 50 * time.Millisecond
	longestRetry = 30 * time.Second
)

// Setup adds the operator to a manager that was made with ManagerOptions.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return err
	}
	if err := addIndexes(ctx, mgr, o.GPU.Mode); err != nil {
		return err
	}
	r := &reconciler{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), events: mgr.GetEventRecorder(controllerName),
		opts: o, memory: newMemory(),
	}
	child := handler.EnqueueRequestsFromMapFunc(ownerOf)
	build := ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		For(&v1alpha1.ModelService{}, builder.WithPredicates(othersNews(r.memory))).
		Watches(&appsv1.Deployment{}, child, builder.WithPredicates(newDeployment(r.memory), newChild(r.memory))).
		Watches(&corev1.Service{}, child, builder.WithPredicates(newChild(r.memory))).
		Watches(&appsv1.ReplicaSet{}, child, builder.OnlyMetadata, builder.WithPredicates(newMetadata(), newChild(r.memory))).
		Watches(&corev1.Pod{}, child, builder.WithPredicates(newPod(r.memory))).
		Watches(&autoscalingv2.HorizontalPodAutoscaler{}, handler.EnqueueRequestsFromMapFunc(scaledBy), builder.WithPredicates(newTarget()))
	if o.GPU.Mode == GPUDRA {
		build = build.
			Watches(&resourceapi.ResourceClaimTemplate{}, child, builder.OnlyMetadata, builder.WithPredicates(newMetadata())).
			Watches(&resourceapi.ResourceClaim{}, child)
	}
	err := build.
		WithOptions(controller.Options{
			MaxConcurrentReconciles: o.Workers,
			// One manager after another may run in a process: see the Lease.
			SkipNameValidation: new(true),
			RateLimiter:        workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, longestRetry),
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the operator: %w", err)
	}
	return nil
}

// ownerOf maps a child to its ModelService, by the label or, where somebody
// took that away, by the owner reference.
func ownerOf(_ context.Context, child client.Object) []reconcile.Request {
	name := child.GetLabels()[v1alpha1.LabelModelService]
	if owner := metav1.GetControllerOf(child); name == "" && owner != nil && owner.Kind == kindModelService {
		name = owner.Name
	}
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: child.GetNamespace(), Name: name}}}
}

// scaledBy maps an autoscaler, whoever made it, to the ModelService of the name
// of what it scales.
func scaledBy(_ context.Context, o client.Object) []reconcile.Request {
	if scales(o) == nil {
		return nil
	}
	h, _ := o.(*autoscalingv2.HorizontalPodAutoscaler)
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: h.Spec.ScaleTargetRef.Name}}}
}

// newTarget lets pass what changes more than an autoscaler's status, which it
// writes all the time.
func newTarget() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, _ := e.ObjectOld.(*autoscalingv2.HorizontalPodAutoscaler)
		after, _ := e.ObjectNew.(*autoscalingv2.HorizontalPodAutoscaler)
		return before == nil || after == nil || !equality.Semantic.DeepEqual(before.Spec, after.Spec) ||
			!equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences) ||
			!equality.Semantic.DeepEqual(before.Labels, after.Labels) || terminating(before) != terminating(after)
	}}
}
