package operator

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"modeldock.io/api/v1alpha1"
)

const kindModelService = "ModelService"

// selectorOf picks an object's Pods. The UID is part of it, so that a new
// object of the same name never adopts Pods of the one before.
func selectorOf(m *v1alpha1.ModelService) map[string]string {
	return map[string]string{v1alpha1.LabelModelService: m.Name, v1alpha1.LabelUID: string(m.UID)}
}

func selectorText(m *v1alpha1.ModelService) string {
	return labels.SelectorFromSet(selectorOf(m)).String()
}

func labelsOf(m *v1alpha1.ModelService) map[string]string {
	all := selectorOf(m)
	all[v1alpha1.LabelManagedBy] = v1alpha1.ManagedBy
	all[v1alpha1.LabelTenant] = labelValue(m.Spec.Tenant)
	all[v1alpha1.LabelModel] = labelValue(m.Spec.Model.Name)
	return all
}

// annotationsOf says whose object it is. Nothing here changes during the
// object's life: on a Pod template a change would replace every replica.
func annotationsOf(m *v1alpha1.ModelService) map[string]string {
	return map[string]string{
		v1alpha1.AnnotationTenant:    m.Spec.Tenant,
		v1alpha1.AnnotationID:        m.Spec.RequestID,
		v1alpha1.AnnotationLedger:    m.Annotations[v1alpha1.AnnotationLedger],
		v1alpha1.AnnotationObjectUID: string(m.UID),
	}
}

func ownerReference(m *v1alpha1.ModelService) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(v1alpha1.GroupVersion().String()).WithKind(kindModelService).
		WithName(m.Name).WithUID(m.UID).WithController(true).WithBlockOwnerDeletion(true)
}

// labelValue is s where that may stand in a label, else its hash.
func labelValue(s string) string {
	if len(validation.IsValidLabelValue(s)) == 0 {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return "h-" + hex.EncodeToString(sum[:])[:40]
}

// carries reports whether something on a cluster belongs to the object with
// uid: by label, by annotation or by owner.
func carries(o metav1.Object, uid string) bool {
	if o.GetLabels()[v1alpha1.LabelUID] == uid || o.GetAnnotations()[v1alpha1.AnnotationObjectUID] == uid {
		return true
	}
	for _, ref := range o.GetOwnerReferences() {
		if string(ref.UID) == uid {
			return true
		}
	}
	return false
}

func merged(parts ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, p := range parts {
		maps.Copy(all, p)
	}
	return all
}
