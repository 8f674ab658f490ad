// Package kube is what the adapters of a cluster share: a client of the API
// server that knows the kinds they use, and lists of objects that are followed
// and know when they may be out of date. It decides nothing.
package kube

import (
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/api/v1alpha1"
)

// Limits of a client whose configuration names none: everything of a cluster
// goes through one, also a thousand deliveries at once.
const (
	queriesPerSecond = 500
	burst            = 1000
)

// NewClient returns a client that asks the API server itself and caches
// nothing. It knows its kinds from the start, so that it can be made while the
// API server is away.
func NewClient(cfg *rest.Config, agent string) (client.WithWatch, error) {
	cfg = Configured(cfg, agent)
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme, Mapper: Mapper()})
	if err != nil {
		return nil, fmt.Errorf("make the client of the API server %s: %w", cfg.Host, err)
	}
	return c, nil
}

// Mapper knows the resources of the kinds that are used here, so that nobody has
// to ask for them, and to look through all that a cluster has at every call.
func Mapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, gvk := range []schema.GroupVersionKind{
		v1alpha1.GroupVersion().WithKind("ModelService"),
		corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithKind("Service"),
		appsv1.SchemeGroupVersion.WithKind("Deployment"), appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
		discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), eventsv1.SchemeGroupVersion.WithKind("Event"),
		resourceapi.SchemeGroupVersion.WithKind("ResourceClaim"), resourceapi.SchemeGroupVersion.WithKind("ResourceClaimTemplate"),
		autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"),
	} {
		mapper.Add(gvk, meta.RESTScopeNamespace)
		mapper.Add(gvk.GroupVersion().WithKind(gvk.Kind+"List"), meta.RESTScopeNamespace)
	}
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	return mapper
}

// Scheme has the kinds that are used here, ours among them.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, autoscalingv1.AddToScheme, discoveryv1.AddToScheme, resourceapi.AddToScheme, eventsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("build the scheme of the API client: %w", err)
		}
	}
	return scheme, nil
}

// Configured is a copy of cfg with the limits and the name of this client.
// Answers are not compressed: what is watched comes in small pieces, and to
// compress each costs the API server more than the network gains.
func Configured(cfg *rest.Config, agent string) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	if cfg.QPS == 0 {
		cfg.QPS, cfg.Burst = queriesPerSecond, burst
	}
	cfg.UserAgent, cfg.DisableCompression = agent, true
	return cfg
}

// Absent reports whether err says that the object of this name is not there.
// That its kind, or the API server's answer, is missing is something else.
func Absent(err error, name string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Name == name
}
