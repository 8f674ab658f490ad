//go:build cluster

package cards

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"modeldock.io/internal/placement/nodecards"
)

const (
	gpuMemory = corev1.ResourceName("modeldock.io/gpu-memory")
	decision  = "scheduler.ai/gpu-device-uuid"
	chunks    = 93 // of 256 MiB in a card of 24 576 MiB less 3 %
)

// asking is a Pod as the operator makes it: it shows the container the card of
// the annotation, and is left to our scheduler.
func asking(name string, units int64) *corev1.Pod {
	return pod(name, func(p *corev1.Pod) {
		p.Spec.SchedulerName = "by-hand"
		c := &p.Spec.Containers[0]
		c.Resources.Limits = corev1.ResourceList{gpuMemory: *resource.NewQuantity(units, resource.DecimalSI)}
		for _, variable := range []string{"MODELDOCK_CARD", "NVIDIA_VISIBLE_DEVICES"} {
			c.Env = append(c.Env, corev1.EnvVar{Name: variable, ValueFrom: &corev1.EnvVarSource{
				FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + decision + "']"},
			}})
		}
	})
}

// bind does what the scheduler does: node and card in one write.
func (n *node) bind(t *testing.T, p *corev1.Pod, card string) {
	t.Helper()
	err := ground.scheduler.CoreV1().Pods(namespace).Bind(t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: namespace, UID: p.UID, Annotations: map[string]string{decision: card}},
		Target:     corev1.ObjectReference{Kind: "Node", Name: n.Name},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func (n *node) counts(t *testing.T, want int64) {
	t.Helper()
	n.eventually(t, fmt.Sprintf("the kubelet counts %d chunks", want), func() (bool, any) {
		have := n.object(t).Status.Allocatable[gpuMemory]
		return have.Value() == want, have.String()
	})
}

func (n *node) saysHealthy(t *testing.T, want ...bool) {
	t.Helper()
	n.eventually(t, fmt.Sprintf("the Node says of its cards %v", want), func() (bool, any) {
		text := n.object(t).Annotations[nodecards.Annotation]
		cards, err := nodecards.Parse(text)
		if err != nil || len(cards) != len(want) {
			return false, text
		}
		for i, c := range cards {
			if c.Healthy != want[i] || !c.Simulated || c.TotalMiB != 24576 {
				return false, text
			}
		}
		return true, text
	})
}

func TestDevicePlugin(t *testing.T) {
	t.Parallel()
	cards := []card{{"SIM-a", 0, 24576, true}, {"SIM-b", 1, 24576, true}}
	n := startNode(t, 0, "device-plugin", cards)
	n.saysHealthy(t, true, true)
	n.counts(t, 2*chunks)

	// Each container sees the card that was decided, whatever the order.
	for name, uuid := range map[string]string{"plugin-1": "SIM-b", "plugin-2": "SIM-a", "plugin-3": "SIM-b"} {
		n.bind(t, create(t, asking(name, 40)), uuid)
		n.mustSee(t, name, uuid)
	}

	// Who goes past the scheduler is counted, and sees no card although the
	// image asks for all of them.
	create(t, pod("plugin-past", func(p *corev1.Pod) {
		p.Spec.NodeName = n.Name
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{gpuMemory: resource.MustParse("10")}
	}))
	if told := n.sees(t, "plugin-past"); told["NVIDIA_VISIBLE_DEVICES"] != "void" || told["MODELDOCK_CARD"] != "" {
		t.Errorf("past the scheduler it was told %v", told)
	}
	create(t, pod("plugin-much", func(p *corev1.Pod) {
		p.Spec.NodeName = n.Name
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{gpuMemory: resource.MustParse("100")}
	}))
	n.eventually(t, "the kubelet refuses what the node does not have", func() (bool, any) {
		p := get(t, "plugin-much")
		return p.Status.Phase == corev1.PodFailed, p.Status
	})

	// A card falls ill and recovers.
	cards[1].Healthy = false
	n.write(t, cards)
	n.saysHealthy(t, true, false)
	n.counts(t, chunks)
	cards[1].Healthy = true
	n.write(t, cards)
	n.saysHealthy(t, true, true)
	n.counts(t, 2*chunks)

	// The kubelet and the agent start anew; what runs goes on.
	if err := n.Kubelet().Kill(); err != nil {
		t.Fatal(err)
	}
	if err := n.Kubelet().Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Until the agent has registered again, the kubelet takes no Pod with cards.
	taken := ""
	for attempt := 4; taken == ""; attempt++ {
		name := fmt.Sprint("plugin-", attempt)
		n.bind(t, create(t, asking(name, 40)), "SIM-a")
		n.eventually(t, "the kubelet decides on "+name, func() (bool, any) {
			p := get(t, name)
			if p.Status.Phase == corev1.PodRunning {
				taken = name
			}
			return p.Status.Phase == corev1.PodRunning || p.Status.Reason == "UnexpectedAdmissionError", p.Status
		})
		if attempt > 50 {
			t.Fatal("the agent does not register with a kubelet that was started again")
		}
	}
	n.mustSee(t, taken, "SIM-a")
	n.counts(t, 2*chunks)
	if p := get(t, "plugin-1"); p.Status.Phase != corev1.PodRunning || p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("a Pod of before: %+v", p.Status)
	}
}
