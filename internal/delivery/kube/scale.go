package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/kube"
)

var _ delivery.Scalable = (*Target)(nil)

// scaler names the number of replicas' writer in the fields it manages.
const scaler = "modeldock-scaler"

// deletionCost is the annotation by which a ReplicaSet chooses what it ends
// first: of the ready Pods the one that costs least, then the youngest.
const deletionCost = "controller.kubernetes.io/pod-deletion-cost"

// Scale implements delivery.Scalable through the object's scale subresource,
// as an autoscaler does. The resource version makes it fail where anybody
// wrote in between. The step is kept in the status; should that fail, the
// count is changed all the same, and a rate policy knows of one step less.
func (t *Target) Scale(ctx context.Context, ref budget.Ref, step delivery.ScalingStep) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	key, _ := t.where(ref)
	var ms v1alpha1.ModelService
	err := t.live.Get(ctx, key, &ms)
	if kube.Absent(err, key.Name) || err == nil && (t.ours(&ms, ref) != nil || !ms.DeletionTimestamp.IsZero()) {
		return fmt.Errorf("scale ModelService %s: request %s of tenant %s has no object: %w", key, ref.ID, ref.Tenant, budget.ErrNotFound)
	}
	if err != nil {
		return fmt.Errorf("scale ModelService %s: %w", key, err)
	}
	if have := int(ms.Spec.Replicas); have != step.From {
		return fmt.Errorf("scale ModelService %s from %d to %d: %d are asked for: %w", key, step.From, step.To, have, delivery.ErrScaled)
	}
	if step.To < step.From {
		t.spare(ctx, &ms, step.Busy)
	}
	if step.To != step.From {
		scale := &autoscalingv1.Scale{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, ResourceVersion: ms.ResourceVersion},
			Spec:       autoscalingv1.ScaleSpec{Replicas: int32(step.To)}, //nolint:gosec // modelspec bounds it
		}
		err := t.live.SubResource("scale").Update(ctx, &ms, client.WithSubResourceBody(scale), client.FieldOwner(scaler))
		if apierrors.IsConflict(err) {
			return fmt.Errorf("scale ModelService %s: %w: %w", key, delivery.ErrScaled, err)
		}
		if err != nil {
			return fmt.Errorf("scale ModelService %s from %d to %d: %w", key, step.From, step.To, err)
		}
	}
	if err := t.remember(ctx, &ms, step); err != nil {
		t.cfg.Logger.Warn("a change of the number of replicas is not in the status", "object", key, "from", step.From, "to", step.To, "error", err)
	}
	return nil
}

// spare tells the ReplicaSet how busy each Pod is, so that it ends the least
// loaded. Where that fails, it ends the youngest.
func (t *Target) spare(ctx context.Context, ms *v1alpha1.ModelService, busy map[string]int) {
	for _, pod := range t.pods.By(ms.Name) {
		if carried(pod) != ms.UID {
			continue
		}
		cost := strconv.Itoa(busy[string(pod.UID)])
		if have, known := pod.Annotations[deletionCost]; have == cost || !known && cost == "0" {
			continue
		}
		// The UID makes it fail for another Pod of the same name.
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "annotations": map[string]string{deletionCost: cost}}})
		if err == nil {
			one := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
			err = t.live.Patch(ctx, one, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(scaler))
		}
		if err != nil {
			t.cfg.Logger.Warn("a Pod's load is not told to its ReplicaSet, which ends the youngest instead", "pod", pod.Name, "error", err)
		}
	}
}

// remember puts the step into status.scalingHistory.
func (t *Target) remember(ctx context.Context, ms *v1alpha1.ModelService, step delivery.ScalingStep) error {
	status := map[string]any{"scalingHistory": historyOf(delivery.Remember(steps(ms), step))}
	if ms.Status.ObservedGeneration == 0 { // the operator was not there yet, and no status is without counts
		status["replicas"], status["readyReplicas"] = ms.Status.Replicas, ms.Status.ReadyReplicas
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": ms.UID}, "status": status})
	if err != nil {
		return fmt.Errorf("encode the scaling history: %w", err)
	}
	one := &v1alpha1.ModelService{ObjectMeta: metav1.ObjectMeta{Namespace: ms.Namespace, Name: ms.Name}}
	if err := t.live.Status().Patch(ctx, one, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(scaler)); err != nil {
		return fmt.Errorf("write the scaling history: %w", err)
	}
	return nil
}

// historyOf is what the status keeps; signals stand in the message.
func historyOf(steps []delivery.ScalingStep) []v1alpha1.ScalingStep {
	out := make([]v1alpha1.ScalingStep, 0, len(steps))
	for _, s := range steps {
		out = append(out, v1alpha1.ScalingStep{At: metav1.NewTime(s.At), From: int32(s.From), To: int32(s.To), Reason: s.Reason, Message: s.Message}) //nolint:gosec // modelspec bounds both
	}
	return out
}

func steps(ms *v1alpha1.ModelService) []delivery.ScalingStep {
	var out []delivery.ScalingStep
	for _, s := range ms.Status.ScalingHistory {
		out = append(out, delivery.ScalingStep{At: s.At.Time, From: int(s.From), To: int(s.To), Reason: s.Reason, Message: s.Message})
	}
	return out
}
