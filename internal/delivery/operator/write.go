package operator

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"modeldock.io/api/v1alpha1"
)

// act carries out a plan up to its first failure.
func (r *reconciler) act(ctx context.Context, m *v1alpha1.ModelService, actions []Action) error {
	for _, a := range actions {
		logf.FromContext(ctx).Info("write", "verb", a.Verb, "kind", a.Kind, "name", a.Name, "why", a.Why)
		if err := r.write(ctx, m, a); err != nil {
			return fmt.Errorf("%s %s %s/%s: %w", a.Verb, a.Kind, m.Namespace, a.Name, err)
		}
	}
	return nil
}

func (r *reconciler) write(ctx context.Context, m *v1alpha1.ModelService, a Action) error {
	switch a.Verb {
	case AddFinalizer:
		return r.patchFinalizer(ctx, m, controllerutil.AddFinalizer)
	case RemoveFinalizer:
		return client.IgnoreNotFound(r.patchFinalizer(ctx, m, controllerutil.RemoveFinalizer))
	case Create:
		// Not an apply: that would take over an object of this name that
		// somebody else makes at this moment.
		return r.client.Create(ctx, wire(a.Declare), client.FieldOwner(FieldManager))
	case Apply:
		return r.apply(ctx, m, a)
	case Scale:
		// The UID makes it a condition: of another object this is refused.
		patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"replicas":%d}}`, a.UID, a.Replicas)
		return r.client.Patch(ctx, metadata(a.Kind, m.Namespace, a.Name), client.RawPatch(types.MergePatchType, patch), client.FieldOwner(FieldManager))
	case Delete:
		return r.remove(ctx, m, a)
	}
	return fmt.Errorf("unknown verb %q", a.Verb)
}

func wire(declare map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: runtime.DeepCopyJSON(declare)}
}

// apply declares a child's fields again, under the condition that it is still
// the same child.
func (r *reconciler) apply(ctx context.Context, m *v1alpha1.ModelService, a Action) error {
	live := metadata(a.Kind, m.Namespace, a.Name)
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(live), live); err != nil {
		return err
	}
	if live.UID != a.UID {
		return apierrors.NewConflict(v1alpha1.GroupVersion().WithResource("").GroupResource(), a.Name,
			fmt.Errorf("it was replaced: UID %s is now %s", a.UID, live.UID))
	}
	// What was set by the creation belongs to this manager as an update, and
	// would stay when it is not declared any more.
	upgrade, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(FieldManager), FieldManager)
	if err != nil {
		return fmt.Errorf("read its managed fields: %w", err)
	}
	if len(upgrade) > 0 {
		if err := r.client.Patch(ctx, live, client.RawPatch(types.JSONPatchType, upgrade)); err != nil {
			return fmt.Errorf("take over its fields: %w", err)
		}
	}
	declare := wire(a.Declare)
	declare.SetUID(a.UID)
	return r.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(declare), client.ForceOwnership, client.FieldOwner(FieldManager))
}

// remove deletes exactly the object that was seen. A Deployment and a
// ReplicaSet stay until their Pods are gone, so that what is left can be seen.
func (r *reconciler) remove(ctx context.Context, m *v1alpha1.ModelService, a Action) error {
	propagation := metav1.DeletePropagationBackground
	if a.Kind == kindDeployment || a.Kind == kindReplicaSet {
		propagation = metav1.DeletePropagationForeground
	}
	err := r.client.Delete(ctx, metadata(a.Kind, m.Namespace, a.Name),
		client.Preconditions{UID: &a.UID}, client.PropagationPolicy(propagation))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // gone, or another one by now
	}
	return err
}

// patchFinalizer changes the list of finalizers that was read, and no other.
func (r *reconciler) patchFinalizer(ctx context.Context, m *v1alpha1.ModelService, change func(client.Object, string) bool) error {
	changed := m.DeepCopy()
	if !change(changed, v1alpha1.FinalizerLedger) {
		return nil
	}
	return r.client.Patch(ctx, changed, client.MergeFromWithOptions(m, client.MergeFromWithOptimisticLock{}), client.FieldOwner(FieldManager))
}
