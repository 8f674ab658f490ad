package operator

import (
	"fmt"
	"net/http"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/kube"
)

// Scheme knows every type that the operator reads or writes.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			return nil, fmt.Errorf("build the scheme: %w", err)
		}
	}
	return s, nil
}

// ManagerOptions are those of a manager for Setup. It serves no metrics and
// takes part in no election; the caller changes what it wants otherwise.
func ManagerOptions(namespaces ...string) (ctrl.Options, error) {
	s, err := Scheme()
	if err != nil {
		return ctrl.Options{}, err
	}
	c, err := CacheOptions(namespaces...)
	if err != nil {
		return ctrl.Options{}, err
	}
	return ctrl.Options{
		Scheme: s, Cache: c, Metrics: metricsserver.Options{BindAddress: "0"},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return kube.Mapper(), nil },
	}, nil
}

// CacheOptions keep memory small on a large cluster: of Deployments, Services,
// ReplicaSets and Pods only those of ModelServices are watched, and of a Pod
// only what a status is judged by is kept. Without namespaces all are watched.
func CacheOptions(namespaces ...string) (cache.Options, error) {
	// By the label that the Pods' selector has as well: a Pod that loses it is
	// replaced, and so none that runs drops out of sight.
	managed, err := labels.Parse(v1alpha1.LabelModelService)
	if err != nil {
		return cache.Options{}, fmt.Errorf("select the children: %w", err)
	}
	o := cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&appsv1.Deployment{}: {Label: managed},
			&appsv1.ReplicaSet{}: {Label: managed},
			&corev1.Service{}:    {Label: managed},
			&corev1.Pod{}:        {Label: managed, Transform: slimPod},
			// With GPUDRA alone; without it, nobody asks for them.
			&resourceapi.ResourceClaimTemplate{}: {Label: managed},
			&resourceapi.ResourceClaim{}:         {Label: managed},
		},
	}
	for _, ns := range namespaces {
		if o.DefaultNamespaces == nil {
			o.DefaultNamespaces = map[string]cache.Config{}
		}
		o.DefaultNamespaces[ns] = cache.Config{}
	}
	return o, nil
}

// slimPod is a Pod without what no status speaks of, which is most of it. The
// Pod itself stays as it is: others may have the same one.
func slimPod(in any) (any, error) {
	p, ok := in.(*corev1.Pod)
	if !ok {
		return in, nil
	}
	slim := &corev1.Pod{
		TypeMeta: p.TypeMeta, ObjectMeta: p.ObjectMeta,
		Spec: corev1.PodSpec{NodeName: p.Spec.NodeName, SchedulerName: p.Spec.SchedulerName},
		Status: corev1.PodStatus{
			Phase: p.Status.Phase, Reason: p.Status.Reason, Message: p.Status.Message, StartTime: p.Status.StartTime,
			Conditions: p.Status.Conditions, ContainerStatuses: p.Status.ContainerStatuses, ResourceClaimStatuses: p.Status.ResourceClaimStatuses, PodIP: p.Status.PodIP,
		},
	}
	slim.ManagedFields = nil
	return slim, nil
}

// RestConfig is base with the client limits that many ModelServices need; the
// usual ones would delay a write for seconds.
func RestConfig(base *rest.Config, qps float32, burst int) *rest.Config {
	c := rest.CopyConfig(base)
	c.QPS, c.Burst = qps, burst
	return kube.Configured(c, "modeldock-operator")
}
