package kube

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/api/v1alpha1"
)

// remains is what there is under an object's name, read from the API server.
type remains struct {
	pods []*corev1.Pod
	// makers are the UIDs that Deployments and ReplicaSets carry which have, or
	// will make, Pods; an empty one stands for a child that does not say whose
	// it is.
	makers []types.UID
}

// remains asks for makers before what they make, so that nothing can be made
// behind the answer.
func (t *Target) remains(ctx context.Context, key client.ObjectKey) (remains, error) {
	var left remains
	in, of := client.InNamespace(key.Namespace), client.MatchingLabels{v1alpha1.LabelModelService: key.Name}
	var deployments appsv1.DeploymentList
	if err := t.live.List(ctx, &deployments, in, of); err != nil {
		return left, fmt.Errorf("list the Deployments of %s: %w", key, err)
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		left.made(d, d.Spec.Replicas, d.Status.Replicas)
	}
	var sets appsv1.ReplicaSetList
	if err := t.live.List(ctx, &sets, in, of); err != nil {
		return left, fmt.Errorf("list the ReplicaSets of %s: %w", key, err)
	}
	for i := range sets.Items {
		rs := &sets.Items[i]
		left.made(rs, rs.Spec.Replicas, rs.Status.Replicas)
	}
	pods, err := t.livePods(ctx, key)
	left.pods = pods
	return left, err
}

func (t *Target) livePods(ctx context.Context, key client.ObjectKey) ([]*corev1.Pod, error) {
	var pods corev1.PodList
	if err := t.live.List(ctx, &pods, client.InNamespace(key.Namespace), client.MatchingLabels{v1alpha1.LabelModelService: key.Name}); err != nil {
		return nil, fmt.Errorf("list the Pods of %s: %w", key, err)
	}
	out := make([]*corev1.Pod, len(pods.Items))
	for i := range pods.Items {
		out[i] = &pods.Items[i]
	}
	return out, nil
}

func (r *remains) made(o metav1.Object, wanted *int32, there int32) {
	if (wanted == nil || *wanted > 0 || there > 0) && !slices.Contains(r.makers, carried(o)) {
		r.makers = append(r.makers, carried(o))
	}
}

// of reports whether anything is left of an object. What does not say whose it
// is counts for everybody: slots are rather kept than given back too early.
func (r remains) of(uid types.UID) bool {
	return slices.ContainsFunc(r.makers, func(u types.UID) bool { return u == uid || u == "" }) ||
		slices.ContainsFunc(r.pods, func(p *corev1.Pod) bool { return carried(p) == uid || carried(p) == "" })
}

// earlier are the objects that something is left of, beside some.
func (r remains) earlier(beside ...types.UID) []string {
	var out []string
	for _, uid := range r.uids() {
		if !slices.Contains(beside, uid) {
			out = append(out, string(uid))
		}
	}
	return out
}

// uids are the objects that something is left of, known ones only.
func (r remains) uids() []types.UID {
	out := slices.Clone(r.makers)
	for _, p := range r.pods {
		out = append(out, carried(p))
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return slices.DeleteFunc(out, func(u types.UID) bool { return u == "" })
}
