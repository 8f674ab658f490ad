package operator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"modeldock.io/api/v1alpha1"
)

// Observed is what was seen of one object at one time.
type Observed struct {
	Object      *v1alpha1.ModelService
	Deployment  *appsv1.Deployment // of the object's name, whoever owns it; nil: there is none
	Service     *corev1.Service
	ReplicaSets []metav1.PartialObjectMetadata // that carry the object's UID
	Pods        []corev1.Pod                   // the same
	// Autoscalers scale the object, or the Deployment of its name.
	Autoscalers []autoscalingv2.HorizontalPodAutoscaler
	Now         time.Time

	// With GPUDRA: the template of the object's name whoever owns it, others that
	// carry its UID, and claims that do.
	ClaimTemplates []metav1.PartialObjectMetadata
	Claims         []resourceapi.ResourceClaim
}

func ownedBy(o metav1.Object, uid string) bool {
	owner := metav1.GetControllerOf(o)
	return owner != nil && string(owner.UID) == uid
}

// Conflict is a child's name that somebody else's object has.
type Conflict struct {
	Kind, Namespace, Name string
	Owner                 string
}

func (c Conflict) String() string {
	return fmt.Sprintf("%s %s/%s exists and metadata.ownerReferences names %s; it was left as it is: delete or rename it, and this object goes on by itself",
		c.Kind, c.Namespace, c.Name, c.Owner)
}

// conflictOf reports a child that is not m's. A child that carries m's UID and
// no owner at all only lost its reference.
func conflictOf(m *v1alpha1.ModelService, kind string, child metav1.Object) *Conflict {
	owner := metav1.GetControllerOf(child)
	switch {
	case owner != nil && owner.UID == m.UID:
		return nil
	case owner == nil && child.GetAnnotations()[v1alpha1.AnnotationObjectUID] == string(m.UID):
		return nil
	}
	return &Conflict{Kind: kind, Namespace: m.Namespace, Name: child.GetName(), Owner: describeOwner(child, owner)}
}

func describeOwner(child metav1.Object, owner *metav1.OwnerReference) string {
	if owner != nil {
		return fmt.Sprintf("%s %s (UID %s)", owner.Kind, owner.Name, owner.UID)
	}
	var writers []string
	for _, f := range child.GetManagedFields() {
		if f.Subresource == "" && !slices.Contains(writers, f.Manager) {
			writers = append(writers, f.Manager)
		}
	}
	slices.Sort(writers)
	if len(writers) == 0 {
		return "nobody"
	}
	return "nobody (written by " + strings.Join(writers, ", ") + ")"
}

// currentReplicaSet is the UID of the ReplicaSet whose Pods run what the
// Deployment declares now; empty until the Deployment's controller has seen it,
// unless all that it has not seen is beside what we declare: an annotation that
// somebody adds is a new generation, too.
func (o Observed) currentReplicaSet() string {
	d := o.Deployment
	if d == nil {
		return ""
	}
	if first := o.onlyReplicaSet(); d.Generation == 1 && first != "" {
		return first
	}
	seen := d.Status.ObservedGeneration >= d.Generation
	for i := range o.ReplicaSets {
		rs := &o.ReplicaSets[i]
		if owner := metav1.GetControllerOf(rs); owner == nil || owner.UID != d.UID {
			continue
		}
		same := d.Annotations[annotationDeclared] != "" && rs.Annotations[annotationDeclared] == d.Annotations[annotationDeclared]
		if rs.Annotations[revisionAnnotation] == d.Annotations[revisionAnnotation] && (seen || same) {
			return string(rs.UID)
		}
	}
	return ""
}

// onlyReplicaSet is the UID of the one ReplicaSet that the Deployment has, if
// it was made after the Deployment: as long as that was never changed, there is
// nothing else that its Pods could run, and no need to wait until a busy
// controller says so.
func (o Observed) onlyReplicaSet() string {
	only := ""
	for i := range o.ReplicaSets {
		rs := &o.ReplicaSets[i]
		if owner := metav1.GetControllerOf(rs); owner == nil || owner.UID != o.Deployment.UID {
			continue
		}
		if only != "" || rs.CreationTimestamp.Before(&o.Deployment.CreationTimestamp) {
			return ""
		}
		only = string(rs.UID)
	}
	return only
}

// revisionAnnotation is set by the Deployment controller on both.
const revisionAnnotation = "deployment.kubernetes.io/revision"

// addressed reports whether a Pod has an address, which it has long before its
// engine has loaded. Only then is a Service worth its objects: made earlier, it
// has the cluster write its endpoints twice, empty at first.
func (o Observed) addressed() bool {
	return slices.ContainsFunc(o.Pods, func(p corev1.Pod) bool { return p.Status.PodIP != "" })
}

// serviceIsNew reports whether the object has no Service yet, as far as its
// status tells: either none is needed, or it was never seen to serve.
func (o Observed) serviceIsNew() bool {
	return !terminating(o.Object) && (!o.addressed() || !meta.IsStatusConditionTrue(o.Object.Status.Conditions, v1alpha1.ConditionReady))
}

// finished Pods hold no card and never come back.
func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
}

func terminating(o metav1.Object) bool { return o.GetDeletionTimestamp() != nil }

func podCondition(p *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == kind {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// isReady reports whether a Pod answers its health check and is not on its way
// out.
func isReady(p *corev1.Pod) bool {
	c := podCondition(p, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue && !terminating(p) && !finished(p)
}
