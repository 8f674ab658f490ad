package kube

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/kube"
)

// Delete starts the deletion of ref's object: of the UID that is given, or
// else of the one there, if its annotations are ours. The operator then takes
// the children away; the object stays until LetGo.
func (t *Target) Delete(ctx context.Context, ref budget.Ref, uid string) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	key, _ := t.where(ref)
	if uid == "" {
		var ms v1alpha1.ModelService
		err := t.live.Get(ctx, key, &ms)
		if kube.Absent(err, key.Name) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read ModelService %s: %w", key, err)
		}
		if t.ours(&ms, ref) != nil || !ms.DeletionTimestamp.IsZero() {
			return nil
		}
		uid = string(ms.UID)
	}
	only := types.UID(uid)
	ms := &v1alpha1.ModelService{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	err := t.live.Delete(ctx, ms, client.Preconditions{UID: &only}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err == nil || kube.Absent(err, key.Name) || apierrors.IsConflict(err) { // a conflict: another object has the name
		return nil
	}
	return fmt.Errorf("delete ModelService %s (uid %s): %w", key, uid, err)
}

// LetGo implements delivery.Honouring: it takes the finalizer away once no Pod
// that carried the UID is left, and nothing that would make another one.
func (t *Target) LetGo(ctx context.Context, ref budget.Ref, uid string) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	key, _ := t.where(ref)
	var conflict error
	for range writes {
		var ms v1alpha1.ModelService
		err := t.live.Get(ctx, key, &ms)
		if kube.Absent(err, key.Name) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read ModelService %s: %w", key, err)
		}
		if string(ms.UID) != uid || ms.DeletionTimestamp.IsZero() || t.ours(&ms, ref) != nil {
			return nil
		}
		left, err := t.remains(ctx, key)
		if err != nil || left.of(ms.UID) {
			return err
		}
		if !controllerutil.RemoveFinalizer(&ms, v1alpha1.FinalizerLedger) {
			return nil
		}
		conflict = t.live.Update(ctx, &ms, client.FieldOwner(agent))
		if conflict == nil || kube.Absent(conflict, key.Name) {
			return nil
		}
		if !apierrors.IsConflict(conflict) {
			break
		}
	}
	return fmt.Errorf("let ModelService %s (uid %s) go: %w", key, uid, conflict)
}
