package operator

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/api/v1alpha1"
)

// indexUID finds what carries a ModelService's UID without looking at all.
const indexUID = "modeldock-uid"

func addIndexes(ctx context.Context, mgr ctrl.Manager, mode GPUMode) error {
	uids := func(o client.Object) []string {
		var out []string
		for _, uid := range []string{o.GetLabels()[v1alpha1.LabelUID], o.GetAnnotations()[v1alpha1.AnnotationObjectUID]} {
			if uid != "" && (len(out) == 0 || out[0] != uid) {
				out = append(out, uid)
			}
		}
		return out
	}
	kinds := []client.Object{&corev1.Pod{}, metadata(kindReplicaSet, "", "")}
	if mode == GPUDRA {
		kinds = append(kinds, &resourceapi.ResourceClaim{}, metadata(kindClaimTemplate, "", ""))
	}
	for _, kind := range kinds {
		if err := mgr.GetFieldIndexer().IndexField(ctx, kind, indexUID, uids); err != nil {
			return fmt.Errorf("index children by UID: %w", err)
		}
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &autoscalingv2.HorizontalPodAutoscaler{}, indexScaled, scales); err != nil {
		return fmt.Errorf("index autoscalers by what they scale: %w", err)
	}
	return nil
}

// indexScaled finds autoscalers by what they scale: kind, slash, name.
const indexScaled = "modeldock-scaled"

func scales(o client.Object) []string {
	h, is := o.(*autoscalingv2.HorizontalPodAutoscaler)
	if !is {
		return nil
	}
	t := h.Spec.ScaleTargetRef
	group, err := schema.ParseGroupVersion(t.APIVersion)
	ours := err == nil && (t.Kind == kindModelService && group.Group == v1alpha1.GroupName || t.Kind == kindDeployment && group.Group == appsv1.GroupName)
	if !ours {
		return nil
	}
	return []string{t.Kind + "/" + t.Name}
}

// metadata is an object of which only the metadata counts.
func metadata(kind, namespace, name string) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	switch kind {
	case kindDeployment, kindReplicaSet:
		o.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind(kind))
	case kindAutoscaler:
		o.SetGroupVersionKind(autoscalingv2.SchemeGroupVersion.WithKind(kind))
	case kindModelService:
		o.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind(kind))
	case kindClaimTemplate, kindClaim:
		o.SetGroupVersionKind(resourceapi.SchemeGroupVersion.WithKind(kind))
	default:
		o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	}
	return o
}

// observe reads everything that bears on one object. Object is nil where there
// is none.
func (r *reconciler) observe(ctx context.Context, key types.NamespacedName) (Observed, error) {
	o := Observed{Now: r.opts.Now()}
	m := &v1alpha1.ModelService{}
	if err := r.client.Get(ctx, key, m); apierrors.IsNotFound(err) {
		return o, nil
	} else if err != nil {
		return o, fmt.Errorf("read ModelService %s: %w", key, err)
	}
	o.Object = r.memory.newest(key, m)
	m = o.Object
	// Nobody needs to ask for the children of an object that is new: where a
	// name is taken, the creation says so, and the next look finds by whom.
	fresh := r.memory.meet(key, m.UID) && m.Status.ObservedGeneration == 0 && !terminating(m)
	if err := r.listPods(ctx, &o); err != nil {
		return o, err
	}
	deployment, service := &appsv1.Deployment{}, &corev1.Service{}
	for _, c := range []struct {
		into   child
		cached bool
		found  func()
	}{
		{deployment, fresh, func() { o.Deployment = deployment }},
		{service, fresh || o.serviceIsNew() && !r.memory.isTaken(key), func() { o.Service = service }},
	} {
		found, err := r.getChild(ctx, key, c.into, c.cached)
		if err != nil {
			return o, err
		}
		if found {
			c.found()
		}
	}
	for _, kind := range []string{kindModelService, kindDeployment} {
		list := &autoscalingv2.HorizontalPodAutoscalerList{}
		if err := r.client.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{indexScaled: kind + "/" + key.Name}); err != nil {
			return o, fmt.Errorf("list the autoscalers of %s: %w", key, err)
		}
		o.Autoscalers = append(o.Autoscalers, list.Items...)
	}
	if r.opts.GPU.Mode == GPUDRA {
		if err := r.observeClaims(ctx, &o, fresh); err != nil {
			return o, err
		}
	}
	if terminating(m) && o.Deployment == nil && len(o.Pods) == 0 && len(o.ReplicaSets) == 0 {
		return o, r.observeLeftovers(ctx, &o)
	}
	return o, nil
}

// observeClaims reads what cards come by.
func (r *reconciler) observeClaims(ctx context.Context, o *Observed, fresh bool) error {
	ns, carrying := client.InNamespace(o.Object.Namespace), client.MatchingFields{indexUID: string(o.Object.UID)}
	templates := &metav1.PartialObjectMetadataList{}
	templates.SetGroupVersionKind(resourceapi.SchemeGroupVersion.WithKind(kindClaimTemplate + "List"))
	if err := r.client.List(ctx, templates, ns, carrying); err != nil {
		return fmt.Errorf("list the ResourceClaimTemplates of %s: %w", o.Object.Name, err)
	}
	o.ClaimTemplates = templates.Items
	name := templateName(o.Object)
	if !terminating(o.Object) && !slices.ContainsFunc(o.ClaimTemplates, func(t metav1.PartialObjectMetadata) bool { return t.Name == name }) {
		named := metadata(kindClaimTemplate, o.Object.Namespace, name)
		found, err := r.getChild(ctx, client.ObjectKeyFromObject(named), named, fresh)
		if err != nil {
			return err
		}
		if found {
			o.ClaimTemplates = append(o.ClaimTemplates, *named)
		}
	}
	claims := &resourceapi.ResourceClaimList{}
	if err := r.client.List(ctx, claims, ns, carrying); err != nil {
		return fmt.Errorf("list the ResourceClaims of %s: %w", o.Object.Name, err)
	}
	o.Claims = claims.Items
	return nil
}

// getChild asks the API server about a child that the cache does not have:
// the cache holds the operator's own objects alone, and the name may be
// somebody else's. cached says that the cache's answer will do.
func (r *reconciler) getChild(ctx context.Context, key types.NamespacedName, into child, cached bool) (bool, error) {
	err := r.client.Get(ctx, key, into)
	if apierrors.IsNotFound(err) && !cached {
		err = r.live.Get(ctx, key, into)
	}
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %T %s: %w", into, key, err)
	}
	return true, nil
}

// listPods reads the Pods of an object and their ReplicaSets.
func (r *reconciler) listPods(ctx context.Context, o *Observed) error {
	ns := client.InNamespace(o.Object.Namespace)
	carrying := client.MatchingFields{indexUID: string(o.Object.UID)}
	sets := &metav1.PartialObjectMetadataList{}
	sets.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind(kindReplicaSet + "List"))
	if err := r.client.List(ctx, sets, ns, carrying); err != nil {
		return fmt.Errorf("list the ReplicaSets of %s: %w", o.Object.Name, err)
	}
	o.ReplicaSets = sets.Items
	pods := &corev1.PodList{}
	if err := r.client.List(ctx, pods, ns, carrying); err != nil {
		return fmt.Errorf("list the Pods of %s: %w", o.Object.Name, err)
	}
	o.Pods = pods.Items
	return nil
}

// observeLeftovers makes sure, before slots come back, that no Pod is left: the
// cache may be behind, and a Pod whose labels somebody changed is not in it.
func (r *reconciler) observeLeftovers(ctx context.Context, o *Observed) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kindPod + "List"))
	if err := r.live.List(ctx, list, client.InNamespace(o.Object.Namespace)); err != nil {
		return fmt.Errorf("make sure that no Pod of %s is left: %w", o.Object.Name, err)
	}
	for i := range list.Items {
		if !carries(&list.Items[i], string(o.Object.UID)) {
			continue
		}
		pod := &corev1.Pod{}
		err := r.live.Get(ctx, client.ObjectKeyFromObject(&list.Items[i]), pod)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read Pod %s: %w", list.Items[i].Name, err)
		}
		o.Pods = append(o.Pods, *pod)
	}
	return nil
}
