//go:build cluster

package cards

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const driver = "gpu.modeldock.io"

// claiming makes a Pod whose claim asks for so much memory of one card, and that
// asks the runtime for other cards: none, as the operator does, or all.
func claiming(t *testing.T, name, memory, visible string) {
	t.Helper()
	template := &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: resourceapi.ResourceClaimTemplateSpec{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: driver,
				Capacity:        &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse(memory)}},
			},
		}}}}},
	}
	if _, err := ground.client.ResourceV1().ResourceClaimTemplates(namespace).Create(t.Context(), template, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	create(t, pod(name, func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "card", ResourceClaimTemplateName: &name}}
		p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "card"}}
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "NVIDIA_VISIBLE_DEVICES", Value: visible}}
	}))
}

// decided is the card in the status of a Pod's claim, by the uuid that the
// slice says of the device, and the claim's UID.
func (n *node) decided(t *testing.T, name string) (uuid, claimUID string) {
	t.Helper()
	n.eventually(t, "a card is decided for "+name, func() (bool, any) {
		p := get(t, name)
		if len(p.Status.ResourceClaimStatuses) == 0 || p.Status.ResourceClaimStatuses[0].ResourceClaimName == nil {
			return false, p.Status
		}
		claim, err := ground.client.ResourceV1().ResourceClaims(namespace).Get(t.Context(), *p.Status.ResourceClaimStatuses[0].ResourceClaimName, metav1.GetOptions{})
		if err != nil || claim.Status.Allocation == nil {
			return false, err
		}
		result := claim.Status.Allocation.Devices.Results[0]
		for _, d := range n.devices(t) {
			if d.Name == result.Device && result.Pool == n.Name && result.Driver == driver {
				uuid = *d.Attributes["uuid"].StringValue
			}
		}
		claimUID = string(claim.UID)
		return uuid != "", claim.Status
	})
	return uuid, claimUID
}

func (n *node) devices(t *testing.T) []resourceapi.Device {
	t.Helper()
	slices, err := ground.client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []resourceapi.Device
	for _, s := range slices.Items {
		if s.Spec.Driver == driver && s.Spec.Pool.Name == n.Name {
			out = append(out, s.Spec.Devices...)
		}
	}
	return out
}

func (n *node) pends(t *testing.T, name string) {
	t.Helper()
	n.eventually(t, name+" is told that it does not fit", func() (bool, any) {
		for _, c := range get(t, name).Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && strings.Contains(c.Message, "cannot allocate all claims") {
				return true, nil
			}
		}
		return false, get(t, name).Status
	})
}

func TestDRA(t *testing.T) {
	t.Parallel()
	cards := []card{{"SIM-X", 0, 24576, true}, {"SIM-Y", 1, 24576, true}}
	n := startNode(t, 1, "dra", cards)
	n.eventually(t, "both cards are offered", func() (bool, any) { d := n.devices(t); return len(d) == 2, d })

	// Two share a card, the third gets the other one, and the fourth fits none
	// although the node's total would allow it.
	on := map[string]string{}
	claims := map[string]string{}
	for _, c := range [][3]string{{"claim-1", "10000Mi", "void"}, {"claim-2", "10000Mi", "all"}, {"claim-3", "12000Mi", "void"}} {
		claiming(t, c[0], c[1], c[2])
		on[c[0]], claims[c[0]] = n.decided(t, c[0])
		n.mustSee(t, c[0], on[c[0]])
	}
	if on["claim-1"] != "SIM-X" || on["claim-2"] != "SIM-X" || on["claim-3"] != "SIM-Y" {
		t.Errorf("decided were %v", on)
	}
	claiming(t, "claim-4", "14000Mi", "void")
	n.pends(t, "claim-4")

	// The agent dies and starts anew: what runs goes on, and what it prepared
	// before is taken back when its Pod ends. Then the fourth fits.
	n.killAgent()
	n.startAgent(t)
	remove(t, "claim-3")
	n.eventually(t, "the card of the third is taken back", func() (bool, any) {
		_, err := os.Stat(filepath.Join(n.CDIDir(), "modeldock.io-card-"+claims["claim-3"]+".json"))
		return os.IsNotExist(err), err
	})
	uuid, _ := n.decided(t, "claim-4")
	if uuid != "SIM-Y" {
		t.Errorf("the fourth is on %s", uuid)
	}
	n.mustSee(t, "claim-4", uuid)
	if p := get(t, "claim-1"); p.Status.Phase != corev1.PodRunning || p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("a Pod of before: %+v", p.Status)
	}

	// A sick card takes no new claims, and its Pods say so.
	cards[0].Healthy = false
	n.write(t, cards)
	n.eventually(t, "the sick card is tainted", func() (bool, any) {
		d := n.devices(t)
		return len(d) == 2 && len(d[0].Taints)+len(d[1].Taints) == 1, d
	})
	n.eventually(t, "the Pod on it says that it is sick", func() (bool, any) {
		p := get(t, "claim-1")
		for _, s := range p.Status.ContainerStatuses[0].AllocatedResourcesStatus {
			for _, r := range s.Resources {
				if r.Health == corev1.ResourceHealthStatusUnhealthy {
					return true, nil
				}
			}
		}
		return false, p.Status
	})
}
