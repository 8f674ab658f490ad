//go:build cluster

package operator_test

import (
	"fmt"
	"maps"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/delivery"
)

// Children that were deleted come back.
func TestDeletedChildrenComeBack(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	m := w.created("demo")
	w.serve("demo", 1)
	w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionTrue, delivery.Available)
	key := client.ObjectKeyFromObject(m)
	for kind, child := range map[string]client.Object{"Deployment": &appsv1.Deployment{}, "Service": &corev1.Service{}} {
		w.must(w.Get(w.ctx, key, child))
		gone := child.GetUID()
		w.must(w.Delete(w.ctx, child, client.PropagationPolicy(metav1.DeletePropagationBackground)))
		w.eventually(kind+" again", func() string {
			if err := w.Get(w.ctx, key, child); err != nil {
				return err.Error()
			}
			if child.GetUID() == gone {
				return "it is still the old one"
			}
			return ""
		})
	}
	// The Pod of the Deployment before holds its card until it is gone; the
	// new one serves.
	w.eventually("the end of the Pod before", func() string {
		for _, p := range w.pods("demo") {
			if p.DeletionTimestamp != nil {
				w.end(&p)
				return ""
			}
		}
		return "no Pod ends"
	})
	w.serve("demo", 1)
	w.waitCondition("demo", v1alpha1.ConditionReady, metav1.ConditionTrue, delivery.Available)
}

// Children that were edited return to what is declared; what others added
// beside it stays.
func TestEditedChildrenReturnToWhatIsDeclared(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*appsv1.Deployment){
		"image":          func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "somebody/else:1" },
		"template-label": func(d *appsv1.Deployment) { d.Spec.Template.Labels[v1alpha1.LabelTenant] = "team-b" },
		"managed-by":     func(d *appsv1.Deployment) { delete(d.Labels, v1alpha1.LabelManagedBy) },
		"watched-label":  func(d *appsv1.Deployment) { delete(d.Labels, v1alpha1.LabelModelService) },
		"owner":          func(d *appsv1.Deployment) { d.OwnerReferences = nil },
		"replicas":       func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](0) },
		"paused":         func(d *appsv1.Deployment) { d.Spec.Paused = true },
		"env":            func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Env[0].Value = "all" },
		"token":          func(d *appsv1.Deployment) { d.Spec.Template.Spec.AutomountServiceAccountToken = ptr.To(true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, nil)
			w.created("demo")
			w.living("demo", 1)
			declared := w.deployment("demo")
			edit(w, "demo", &appsv1.Deployment{}, func(d *appsv1.Deployment) {
				d.Labels["their/label"], d.Annotations["their/annotation"] = "x", "y"
				change(d)
			})
			w.eventually("return of the Deployment", func() string {
				return sameDeclaration(declared, w.deployment("demo"))
			})
			if d := w.deployment("demo"); d.Labels["their/label"] != "x" || d.Annotations["their/annotation"] != "y" {
				t.Errorf("what others added is gone: %v %v", d.Labels, d.Annotations)
			}
		})
	}
}

// sameDeclaration says what of a Deployment is not as it was.
func sameDeclaration(want, have *appsv1.Deployment) string {
	w, h := want.DeepCopy(), have.DeepCopy()
	for _, d := range []*appsv1.Deployment{w, h} {
		d.ManagedFields, d.ResourceVersion, d.Generation, d.Status = nil, "", 0, appsv1.DeploymentStatus{}
		maps.DeleteFunc(d.Labels, func(k, _ string) bool { return k == "their/label" })
		maps.DeleteFunc(d.Annotations, func(k, _ string) bool {
			return k == "their/annotation" || k == "deployment.kubernetes.io/revision"
		})
	}
	if a, b := fmt.Sprint(asJSON(w)), fmt.Sprint(asJSON(h)); a != b {
		return "it is " + b + "\nand was " + a
	}
	return ""
}

// What is no longer declared does not stay behind, though the creation set it.
func TestWhatIsNoLongerDeclaredGoes(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.created("demo")
	w.living("demo", 1)
	edit(w, "demo", &v1alpha1.ModelService{}, func(m *v1alpha1.ModelService) { m.Spec.Engine.Env = m.Spec.Engine.Env[:1] })
	w.eventually("removal of the variables", func() string {
		names := ""
		for _, e := range w.deployment("demo").Spec.Template.Spec.Containers[0].Env {
			if e.Name == "A" || e.Name == "B" || e.Name == "C" {
				names += e.Name
			}
		}
		if names != "B" {
			return "there are " + names
		}
		return ""
	})
}

// Children and Pods tell by label and by annotation whose they are.
func TestUIDOfTheObjectIsOnEveryChild(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	m := w.created("demo")
	pods := w.living("demo", 1)
	for what, o := range map[string]client.Object{"Deployment": w.deployment("demo"), "Pod": &pods[0]} {
		if o.GetLabels()[v1alpha1.LabelUID] != string(m.UID) || o.GetAnnotations()[v1alpha1.AnnotationObjectUID] != string(m.UID) {
			t.Errorf("%s carries %v and %v, want UID %s", what, o.GetLabels(), o.GetAnnotations(), m.UID)
		}
	}
}
