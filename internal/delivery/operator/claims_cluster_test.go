//go:build cluster

package operator_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/operator"
)

func claiming(o *operator.Options) { o.GPU = operator.GPU{Mode: operator.GPUDRA} }

func (w *world) templates() []resourceapi.ResourceClaimTemplate {
	w.t.Helper()
	list := &resourceapi.ResourceClaimTemplateList{}
	w.must(w.List(w.ctx, list, client.InNamespace(w.ns)))
	return list.Items
}

// claimOf waits for the claim that the cluster makes of a Pod's template.
func (w *world) claimOf(p *corev1.Pod) *resourceapi.ResourceClaim {
	w.t.Helper()
	claim := &resourceapi.ResourceClaim{}
	w.eventually("the claim of "+p.Name, func() string {
		w.must(w.Get(w.ctx, client.ObjectKeyFromObject(p), p))
		if len(p.Status.ResourceClaimStatuses) != 1 || p.Status.ResourceClaimStatuses[0].ResourceClaimName == nil {
			return fmt.Sprint(p.Status.ResourceClaimStatuses)
		}
		if err := w.Get(w.ctx, client.ObjectKey{Namespace: w.ns, Name: *p.Status.ResourceClaimStatuses[0].ResourceClaimName}, claim); err != nil {
			return err.Error()
		}
		return ""
	})
	return claim
}

// allocate does what a scheduler does before it binds a Pod with a claim.
func (w *world) allocate(c *resourceapi.ResourceClaim, p *corev1.Pod, device string) {
	w.t.Helper()
	share := types.UID("6f1c7a3e-0000-4000-8000-000000000001")
	memory := c.Spec.Devices.Requests[0].Exactly.Capacity.Requests["memory"]
	c.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{
		Request: c.Spec.Devices.Requests[0].Name, Driver: v1alpha1.DRADriver, Pool: node, Device: device, ShareID: &share,
		ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{"memory": memory},
	}}}}
	c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: p.Name, UID: p.UID}}
	w.must(w.Status().Update(w.ctx, c))
}

// A model whose cards come by claims: each replica has a claim of its own that
// carries the object's identity, its card is known from the claim's status, and
// nothing is left at the end.
func TestCardsByClaims(t *testing.T) {
	t.Parallel()
	w := setup(t, claiming)
	m := w.created("a", func(m *v1alpha1.ModelService) { m.Spec.GPU = v1alpha1.GPU{MemoryMiB: 10000, Count: 1} })
	pods := w.living("a", 1)
	claim := w.claimOf(&pods[0])
	memory := claim.Spec.Devices.Requests[0].Exactly.Capacity.Requests["memory"]
	if memory.String() != "10000Mi" || claim.Labels[v1alpha1.LabelUID] != string(m.UID) || claim.Annotations[v1alpha1.AnnotationID] != "a" {
		t.Errorf("the claim asks for %s and says it is of %v, %v", memory.String(), claim.Labels, claim.Annotations)
	}
	w.allocate(claim, &pods[0], "gpu-1")
	w.bind(&pods[0])
	w.waitCondition("a", v1alpha1.ConditionDevicesAllocated, metav1.ConditionTrue, delivery.Available)
	w.tell(&pods[0], true, running())
	w.waitCondition("a", v1alpha1.ConditionReady, metav1.ConditionTrue, delivery.Available)
	if p := w.object("a").Status.Pods; len(p) != 1 || p[0].Card != "gpu-1" {
		t.Errorf("the status says of its Pods %+v", p)
	}

	// At rest nothing is written.
	w.rest(4)
	before := len(w.written())
	w.rest(4)
	if news := w.written()[before:]; len(news) > 0 {
		t.Errorf("writes at rest: %v", news)
	}

	// Another request is another template; the earlier one goes with its last Pod.
	edit(w, "a", &v1alpha1.ModelService{}, func(m *v1alpha1.ModelService) { m.Spec.GPU.MemoryMiB = 12000 })
	w.eventually("the Pod of before to end", func() string {
		w.must(w.Get(w.ctx, client.ObjectKeyFromObject(&pods[0]), &pods[0]))
		if pods[0].DeletionTimestamp == nil {
			return "it stays"
		}
		return ""
	})
	w.end(&pods[0])
	next := w.living("a", 1)
	second := w.claimOf(&next[0])
	if memory := second.Spec.Devices.Requests[0].Exactly.Capacity.Requests["memory"]; memory.String() != "12000Mi" {
		t.Errorf("the next Pod asks for %s", memory.String())
	}
	w.eventually("the earlier template to go", func() string {
		if left := w.templates(); len(left) != 1 || left[0].Name != "a-12000x1" {
			return fmt.Sprint(len(left), " are left")
		}
		return ""
	})
	w.allocate(second, &next[0], "gpu-0")
	w.bind(&next[0])

	w.must(w.Delete(w.ctx, w.object("a")))
	w.eventually("the Pod to be told to end", func() string {
		w.must(client.IgnoreNotFound(w.Get(w.ctx, client.ObjectKeyFromObject(&next[0]), &next[0])))
		if next[0].DeletionTimestamp == nil {
			return "it stays"
		}
		return ""
	})
	w.end(&next[0])
	w.eventually("everything to be gone", func() string {
		err := w.Get(w.ctx, client.ObjectKey{Namespace: w.ns, Name: "a"}, &v1alpha1.ModelService{})
		if left := w.templates(); client.IgnoreNotFound(err) != nil || err == nil || len(left) > 0 {
			return fmt.Sprint(err, len(left))
		}
		return ""
	})
}

// A template of somebody else keeps its name, and the conflict is told.
func TestForeignTemplateIsLeft(t *testing.T) {
	t.Parallel()
	w := setup(t, claiming)
	theirs := &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "a-4096x1"},
		Spec: resourceapi.ResourceClaimTemplateSpec{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "x", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "theirs", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1},
		}}}}},
	}
	w.must(w.Create(w.ctx, theirs))
	w.created("a")
	c := w.waitCondition("a", v1alpha1.ConditionOwnershipConflict, metav1.ConditionTrue, delivery.NotOwned)
	if want := "ResourceClaimTemplate " + w.ns + "/a-4096x1 exists"; len(c.Message) < len(want) || c.Message[:len(want)] != want {
		t.Errorf("the conflict: %s", c.Message)
	}
	w.rest(3)
	left := w.templates()
	if len(left) != 1 || left[0].ResourceVersion != theirs.ResourceVersion {
		t.Errorf("their template is now %+v", left)
	}
}
