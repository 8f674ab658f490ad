package kube

import (
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"modeldock.io/api/v1alpha1"
)

// Caches of one namespace ask the mapper about lists, too.
func TestMapperKnowsWhatIsUsed(t *testing.T) {
	t.Parallel()
	mapper := Mapper()
	for gvk, want := range map[schema.GroupVersionKind]bool{
		v1alpha1.GroupVersion().WithKind("ModelService"): true, v1alpha1.GroupVersion().WithKind("ModelServiceList"): true,
		corev1.SchemeGroupVersion.WithKind("Pod"): true, corev1.SchemeGroupVersion.WithKind("PodList"): true,
		autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscalerList"): true,
		corev1.SchemeGroupVersion.WithKind("Node"):                               false,
	} {
		if namespaced, err := apiutil.IsGVKNamespaced(gvk, mapper); err != nil || namespaced != want {
			t.Errorf("%s: in a namespace %t, %v", gvk, namespaced, err)
		}
	}
}
