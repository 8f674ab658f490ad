package operator

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Others' objects are not watched, and of our Pods only what is judged is kept.
func TestCachesHoldOnlyWhatIsNeeded(t *testing.T) {
	t.Parallel()
	o, err := CacheOptions("models")
	if err != nil {
		t.Fatal(err)
	}
	if len(o.ByObject) != 6 || len(o.DefaultNamespaces) != 1 {
		t.Errorf("%d kinds in %d namespaces", len(o.ByObject), len(o.DefaultNamespaces))
	}
	for kind, by := range o.ByObject {
		if by.Label.Matches(labels.Set{"app": "web"}) || !by.Label.Matches(labels.Set(labelsOf(newService()))) {
			t.Errorf("%T: watched are %s", kind, by.Label)
		}
	}
	m := newService()
	full := readyPod(m, "a", "set-1")
	full.Spec.Containers = []corev1.Container{{Name: engineContainer, Env: []corev1.EnvVar{{Name: "SECRET", Value: "x"}}}}
	slim, err := slimPod(full.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	p := slim.(*corev1.Pod)
	if len(p.Spec.Containers) > 0 || p.Spec.NodeName != full.Spec.NodeName {
		t.Errorf("kept of the Pod's spec: %+v", p.Spec)
	}
	before, after := View{Observed: Observed{Object: m, Pods: []corev1.Pod{full}}}, View{Observed: Observed{Object: m, Pods: []corev1.Pod{*p}}}
	if a, b := Judge(before), Judge(after); len(a.Pods) != 1 || a.Pods[0].Reason != b.Pods[0].Reason || a.Pods[0].Node != b.Pods[0].Node || a.Pods[0].Name != b.Pods[0].Name {
		t.Errorf("judged otherwise: %+v and %+v", a.Pods, b.Pods)
	}
}
