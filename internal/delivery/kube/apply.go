package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/kube"
)

// writes is how often an object that others write at the same moment is read
// and written again before the call gives up.
const writes = 5

// Apply creates or updates the ModelService of a reservation. A create that
// was not answered, or was answered "already exists", is settled by reading
// the object: by its name there is one only.
func (t *Target) Apply(ctx context.Context, d delivery.Desired) (budget.Object, error) {
	if d.Ledger != t.cfg.Ledger {
		return budget.Object{}, fmt.Errorf("apply %s: it belongs to ledger %s, and this target runs for ledger %s", d.Name, d.Ledger, t.cfg.Ledger)
	}
	if d.Name != delivery.ObjectName(d.Ref) {
		return budget.Object{}, fmt.Errorf("apply %s: the name does not belong to request %s of tenant %s", d.Name, d.Ref.ID, d.Ref.Tenant)
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	key, known := t.where(d.Ref)
	if known {
		obj, err := t.update(ctx, key, d)
		if !kube.Absent(err, key.Name) {
			return obj, err
		}
	}
	created, err := t.create(ctx, newObject(d, key.Namespace))
	if err == nil {
		return created, nil
	}
	if apierrors.IsNotFound(err) {
		return budget.Object{}, fmt.Errorf("create ModelService %s: %w: make the namespace %s, or install the custom resource", key, err, key.Namespace)
	}
	if !readable(err) {
		return budget.Object{}, fmt.Errorf("create ModelService %s: %w", key, err)
	}
	obj, readErr := t.update(ctx, key, d)
	if kube.Absent(readErr, key.Name) { // it was not made, or is gone again
		return budget.Object{}, fmt.Errorf("create ModelService %s: %w", key, err)
	}
	return obj, readErr
}

// create leaves a third of the time for reading back what became of it.
func (t *Target) create(ctx context.Context, ms *v1alpha1.ModelService) (budget.Object, error) {
	if end, ends := ctx.Deadline(); ends {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)*2/3)
		defer cancel()
	}
	if err := t.live.Create(ctx, ms, client.FieldOwner(agent)); err != nil {
		return budget.Object{}, err
	}
	return identity(ms), nil
}

// readable reports whether a create that failed may have made the object, or
// found one: then reading tells. What the API server refused was not made.
func readable(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true // no answer, or none that could be understood
	}
	return apierrors.IsAlreadyExists(err) || status.Status().Code >= 500
}

// update brings the object up to date if it is ours, and returns its identity.
// The error is kube.Absent if there is none.
func (t *Target) update(ctx context.Context, key client.ObjectKey, d delivery.Desired) (budget.Object, error) {
	var conflict error
	for range writes {
		var ms v1alpha1.ModelService
		if err := t.live.Get(ctx, key, &ms); err != nil {
			return budget.Object{}, fmt.Errorf("read ModelService %s: %w", key, err)
		}
		if err := t.ours(&ms, d.Ref); err != nil && !t.edited(&ms, d.UID) {
			t.tellTaken(ctx, &ms, d.Ref, err)
			return budget.Object{}, err
		}
		if !ms.DeletionTimestamp.IsZero() {
			return budget.Object{}, fmt.Errorf("apply %s: the object (uid %s) is being deleted since %s; tried again once it is gone", key, ms.UID, ms.DeletionTimestamp.UTC().Format(time.RFC3339))
		}
		if d.Generation < generation(&ms) {
			return identity(&ms), nil // an old intent, delivered late
		}
		next := ms.DeepCopy()
		write(next, d, !d.Model.Elastic())
		if equality.Semantic.DeepEqual(&ms, next) {
			return identity(&ms), nil
		}
		// The resource version makes it fail where somebody wrote in between.
		conflict = t.live.Update(ctx, next, client.FieldOwner(agent))
		if conflict == nil {
			return identity(next), nil
		}
		if !apierrors.IsConflict(conflict) {
			break
		}
	}
	return budget.Object{}, fmt.Errorf("update ModelService %s: %w", key, conflict)
}

// ours returns delivery.ErrNameTaken for an object of somebody else.
func (t *Target) ours(ms *v1alpha1.ModelService, ref budget.Ref) error {
	if owned(ms, t.cfg.Ledger) && refOf(ms) == ref {
		return nil
	}
	return fmt.Errorf("apply %s: ModelService %s/%s (uid %s) belongs to %s and was left untouched; the slots are kept, and delivery succeeds by itself once it is deleted: %w",
		ms.Name, ms.Namespace, ms.Name, ms.UID, describe(ms), delivery.ErrNameTaken)
}

// edited reports whether an object is the bound one, on which somebody changed
// whose it is. What names another ledger is left to that one.
func (t *Target) edited(ms *v1alpha1.ModelService, bound string) bool {
	ledger := ledgerOf(ms)
	return bound != "" && string(ms.UID) == bound && (ledger == "" || ledger == t.cfg.Ledger)
}

// where is the object's place: where one of its name, or a Pod of it, is
// known to be, or else where the tenant's objects are made. known says that
// the object itself was seen there.
func (t *Target) where(ref budget.Ref) (key client.ObjectKey, known bool) {
	name := delivery.ObjectName(ref)
	key = client.ObjectKey{Namespace: t.cfg.Namespace(ref.Tenant), Name: name}
	for _, ms := range t.services.By(name) {
		if owned(ms, t.cfg.Ledger) {
			return client.ObjectKeyFromObject(ms), true
		}
		known = known || ms.Namespace == key.Namespace
	}
	if known {
		return key, true
	}
	for _, pod := range t.pods.By(name) {
		if ledgerOf(pod) == t.cfg.Ledger && refOf(pod) == ref {
			key.Namespace = pod.Namespace
		}
	}
	return key, false
}
