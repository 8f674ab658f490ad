package operator

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/delivery"
)

func claiming() Options {
	o := options()
	o.GPU = GPU{Mode: GPUDRA}.withDefaults()
	return o
}

func claimTemplate(t *testing.T, m *v1alpha1.ModelService) (resourceapi.ResourceClaimTemplate, metav1.PartialObjectMetadata) {
	t.Helper()
	var template resourceapi.ResourceClaimTemplate
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(declared(t, m, claiming()).ClaimTemplate, &template); err != nil {
		t.Fatal(err)
	}
	template.UID = "template-1"
	return template, metav1.PartialObjectMetadata{ObjectMeta: template.ObjectMeta}
}

func TestClaimsAskForMemoryOfEachCard(t *testing.T) {
	t.Parallel()
	m := newService()
	m.Name = "md-" + strings.Repeat("a", 24) + "-" + strings.Repeat("0", 20)
	m.Spec.GPU = v1alpha1.GPU{MemoryMiB: 99999999, Count: 64}
	template, _ := claimTemplate(t, m)
	if bad := validation.IsDNS1123Subdomain(template.Name); len(bad) > 0 || !metav1.IsControlledBy(&template, m) {
		t.Errorf("template %s of %v: %v", template.Name, template.OwnerReferences, bad)
	}
	devices := template.Spec.Spec.Devices
	ask := devices.Requests[0].Exactly
	memory := ask.Capacity.Requests["memory"]
	if len(devices.Requests) != 1 || ask.DeviceClassName != "gpu.modeldock.io" || ask.Count != 64 || memory.Value() != 99999999<<20 {
		t.Errorf("it asks for %+v, memory %s", ask, memory.String())
	}
	if len(devices.Constraints) != 1 || *devices.Constraints[0].DistinctAttribute != "gpu.modeldock.io/uuid" {
		t.Errorf("several cards might be one: %+v", devices.Constraints)
	}
	if template.Spec.Labels[v1alpha1.LabelUID] != string(m.UID) || template.Spec.Labels[v1alpha1.LabelModelService] != m.Name {
		t.Errorf("its claims would not be found: %v", template.Spec.Labels)
	}
	pod, c := podOfService(t, m, claiming())
	if claims := pod.Spec.ResourceClaims; len(claims) != 1 || *claims[0].ResourceClaimTemplateName != template.Name || len(c.Resources.Claims) != 1 || c.Resources.Claims[0].Name != claims[0].Name {
		t.Errorf("the Pod claims %+v, its container %+v", claims, c.Resources.Claims)
	}
	if len(c.Resources.Limits) != 0 || pod.Annotations[v1alpha1.AnnotationGPUMemory] != "" || c.Env[0].Value != "void" {
		t.Errorf("it asks for cards in another way too: %v, %v, %v", c.Resources.Limits, pod.Annotations, c.Env)
	}
}

// The name of a card that the kubelet cannot fill in would reach the engine as
// it is written.
func TestNoCardInCommandsOfClaims(t *testing.T) {
	t.Parallel()
	for _, e := range []v1alpha1.Engine{
		{Kind: "custom", Image: "x", Args: []string{"--gpu", "${GPU_UUID}"}},
		{Kind: "custom", Image: "x", Env: []v1alpha1.EnvVar{{Name: "A", Value: "uuid=${GPU_UUID}"}}},
	} {
		m := newService()
		m.Spec.Engine = e
		if _, err := Build(m, claiming()); err == nil || !strings.Contains(err.Error(), "MODELDOCK_CARD") {
			t.Errorf("%+v: %v", e, err)
		}
	}
}

// A template comes before the Pods, is made anew for another request, and the
// earlier one goes once none of its Pods is left.
func TestTemplatesFollowTheRequest(t *testing.T) {
	t.Parallel()
	m := newService()
	if got, want := verbs(planned(t, Observed{Object: m}, claiming())), []string{"Create ResourceClaimTemplate", "Create Deployment"}; !slices.Equal(got, want) {
		t.Errorf("planned %v, want %v", got, want)
	}
	o := settled(t, m, claiming())
	_, first := claimTemplate(t, m)
	o.ClaimTemplates = []metav1.PartialObjectMetadata{first}
	if s := planned(t, o, claiming()); len(s.Actions) > 0 {
		t.Errorf("planned %v although everything is there", s.Actions)
	}
	m.Spec.GPU.MemoryMiB *= 2
	_, second := claimTemplate(t, m)
	second.UID = "template-2"
	if got, want := verbs(planned(t, o, claiming())), []string{"Create ResourceClaimTemplate", "Apply Deployment"}; !slices.Equal(got, want) {
		t.Errorf("planned %v, want %v", got, want)
	}
	rolled := settled(t, m, claiming())
	rolled.ClaimTemplates = []metav1.PartialObjectMetadata{first, second}
	old := readyPod(m, "old", "set-0")
	rolled.Pods = append(rolled.Pods, old)
	if s := planned(t, rolled, claiming()); len(s.Actions) > 0 {
		t.Errorf("planned %v while a Pod of before is there", s.Actions)
	}
	rolled.Pods = rolled.Pods[:1]
	s := planned(t, rolled, claiming())
	if len(s.Actions) != 1 || s.Actions[0].Verb != Delete || s.Actions[0].UID != first.UID {
		t.Errorf("planned %v", s.Actions)
	}
	foreign := second
	foreign.OwnerReferences, foreign.Annotations = nil, nil
	rolled.ClaimTemplates = []metav1.PartialObjectMetadata{foreign}
	if s := planned(t, rolled, claiming()); len(s.Actions) > 0 || len(s.Conflicts) != 1 || s.Conflicts[0].Name != second.Name {
		t.Errorf("somebody else's template: planned %v, conflicts %v", s.Actions, s.Conflicts)
	}
}

func TestTheCardIsInTheClaimsStatus(t *testing.T) {
	t.Parallel()
	m := newService()
	o := settled(t, m, claiming())
	name := "md-demo-a-cards-x"
	o.Pods[0].Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: claimName, ResourceClaimName: &name}}
	judged := func() v1alpha1.ModelServiceStatus { return Judge(View{Observed: o, GPU: GPUDRA}) }
	o.Claims = []resourceapi.ResourceClaim{{ObjectMeta: metav1.ObjectMeta{Name: name}}}
	if st := judged(); st.Pods[0].Card != "" || condition(t, st, v1alpha1.ConditionDevicesAllocated).Status != metav1.ConditionFalse {
		t.Errorf("a claim without an allocation: %+v", st)
	}
	o.Claims[0].Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Driver: "net.example.com", Device: "eth"}, {Driver: "gpu.modeldock.io", Pool: "node", Device: "gpu-7"},
	}}}
	if st := judged(); st.Pods[0].Card != "gpu-7" || condition(t, st, v1alpha1.ConditionDevicesAllocated).Status != metav1.ConditionTrue {
		t.Errorf("an allocated claim: %+v", st)
	}
	// What the stock scheduler says of claims is a matter of cards.
	p := corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes are available: 1 cannot allocate all claims."}}}}
	if c := placementCause(&p); c.reason != delivery.NoFragmentFits {
		t.Errorf("judged as %+v", c)
	}
	p.Status.Conditions[0].Reason, p.Status.Conditions[0].Message = corev1.PodReasonSchedulerError, "the policy modeldock-gpu-binding denied the request"
	if c := placementCause(&p); c.reason != delivery.WaitingForNode {
		t.Errorf("an error of the scheduler is judged as %+v", c)
	}
}
