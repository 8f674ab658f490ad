package operator

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	resourceac "k8s.io/client-go/applyconfigurations/resource/v1"

	"modeldock.io/api/v1alpha1"
)

// claimName is that of a Pod's claim of cards, and of the request in it.
const claimName = "cards"

const mebibyte = 1 << 20

// templateName has the request in it: a template cannot be changed, so another
// request is another template.
func templateName(m *v1alpha1.ModelService) string {
	return fmt.Sprintf("%s-%dx%d", m.Name, m.Spec.GPU.MemoryMiB, cardsOf(m.Spec.GPU))
}

// templateOf is what each replica's claim is made from: so much memory of each
// of so many cards, no card twice. Its claims carry the object's labels, by
// which they are found.
func templateOf(m *v1alpha1.ModelService, g GPU) *resourceac.ResourceClaimTemplateApplyConfiguration {
	memory := map[resourceapi.QualifiedName]resource.Quantity{
		v1alpha1.DRACapacity: *resource.NewQuantity(m.Spec.GPU.MemoryMiB*mebibyte, resource.BinarySI),
	}
	devices := resourceac.DeviceClaim().WithRequests(resourceac.DeviceRequest().WithName(claimName).WithExactly(
		resourceac.ExactDeviceRequest().WithDeviceClassName(g.DeviceClass).
			WithAllocationMode(resourceapi.DeviceAllocationModeExactCount).WithCount(int64(cardsOf(m.Spec.GPU))).
			WithCapacity(resourceac.CapacityRequirements().WithRequests(memory))))
	if cardsOf(m.Spec.GPU) > 1 {
		devices.WithConstraints(resourceac.DeviceConstraint().WithDistinctAttribute(v1alpha1.DRADriver + "/uuid"))
	}
	return resourceac.ResourceClaimTemplate(templateName(m), m.Namespace).
		WithLabels(labelsOf(m)).WithAnnotations(annotationsOf(m)).WithOwnerReferences(ownerReference(m)).
		WithSpec(resourceac.ResourceClaimTemplateSpec().
			WithLabels(labelsOf(m)).WithAnnotations(annotationsOf(m)).
			WithSpec(resourceac.ResourceClaimSpec().WithDevices(devices)))
}

func podClaimOf(m *v1alpha1.ModelService) *corev1ac.PodResourceClaimApplyConfiguration {
	return corev1ac.PodResourceClaim().WithName(claimName).WithResourceClaimTemplateName(templateName(m))
}

// device is the first card that a Pod's claim was given, by the name that it
// has in its node's ResourceSlice; empty until the claim is allocated.
func (o Observed) device(p *corev1.Pod) string {
	for _, s := range p.Status.ResourceClaimStatuses {
		if s.Name != claimName || s.ResourceClaimName == nil {
			continue
		}
		for i := range o.Claims {
			c := &o.Claims[i]
			if c.Name != *s.ResourceClaimName || c.Status.Allocation == nil {
				continue
			}
			for _, r := range c.Status.Allocation.Devices.Results {
				if r.Driver == v1alpha1.DRADriver {
					return r.Device
				}
			}
		}
	}
	return ""
}

// planTemplates makes the template that is declared, and takes those of earlier
// requests away once no Pod of theirs is left. One that is there is as it was
// made: the API server lets nobody change it.
func (s *Steps) planTemplates(d Declared, o Observed) {
	if d.ClaimTemplate == nil {
		return
	}
	name, there := templateName(o.Object), false
	for i := range o.ClaimTemplates {
		t := &o.ClaimTemplates[i]
		switch {
		case t.Name == name && conflictOf(o.Object, kindClaimTemplate, t) != nil:
			s.Conflicts = append(s.Conflicts, *conflictOf(o.Object, kindClaimTemplate, t))
			there = true
		case t.Name == name && terminating(t):
			s.Waiting = fmt.Sprintf("%s %s was deleted and is still going away; it will be created again", kindClaimTemplate, name)
			there = true
		case t.Name == name:
			there = true
		case conflictOf(o.Object, kindClaimTemplate, t) == nil && !terminating(t) && o.unused(t.Name):
			s.Actions = append(s.Actions, Action{Verb: Delete, Kind: kindClaimTemplate, Name: t.Name, UID: t.UID, Why: "no Pod asks for this much any more"})
		}
	}
	if !there {
		s.Actions = append(s.Actions, Action{Verb: Create, Kind: kindClaimTemplate, Name: name, Declare: d.ClaimTemplate, Why: "it is not there"})
	}
}

// unused reports whether the Deployment names another template, and every Pod
// runs what it declares now.
func (o Observed) unused(template string) bool {
	current := o.currentReplicaSet()
	if current == "" || slices.ContainsFunc(o.Deployment.Spec.Template.Spec.ResourceClaims, func(c corev1.PodResourceClaim) bool {
		return c.ResourceClaimTemplateName != nil && *c.ResourceClaimTemplateName == template
	}) {
		return false
	}
	for i := range o.Pods {
		if !ownedBy(&o.Pods[i], current) {
			return false
		}
	}
	return true
}
