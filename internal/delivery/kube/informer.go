package kube

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/kube"
)

// Informer makes the informers of an operator of the same process (see
// NewInformer of controller-runtime's cache options): of what is followed here,
// it hears from here.
func (t *Target) Informer(lw cache.ListerWatcher, kind runtime.Object, resync time.Duration, by cache.Indexers) cache.SharedIndexInformer {
	if kube.Shareable() {
		switch kind.(type) {
		case *v1alpha1.ModelService:
			lw = t.services.Shared(&v1alpha1.ModelService{})
		case *corev1.Pod:
			lw = t.pods.Shared(&corev1.Pod{})
		}
	}
	return cache.NewSharedIndexInformer(lw, kind, resync, by)
}
