//go:build cluster

package cards

import (
	"fmt"
	"sync"
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
	if err := n.post(t, p, card); err != nil {
		t.Fatal(err)
	}
}

func (n *node) post(t *testing.T, p *corev1.Pod, card string) error {
	return ground.scheduler.CoreV1().Pods(namespace).Bind(t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: namespace, UID: p.UID, Annotations: map[string]string{decision: card}},
		Target:     corev1.ObjectReference{Kind: "Node", Name: n.Name},
	}, metav1.CreateOptions{})
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

// past is a Pod that goes past the scheduler.
func (n *node) past(t *testing.T, name string, units int64) {
	t.Helper()
	create(t, pod(name, func(p *corev1.Pod) {
		p.Spec.NodeName = n.Name
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{gpuMemory: *resource.NewQuantity(units, resource.DecimalSI)}
	}))
}

func (n *node) refuses(t *testing.T, name, what string) {
	t.Helper()
	n.eventually(t, "the kubelet refuses "+what, func() (bool, any) {
		p := get(t, name)
		return p.Status.Phase == corev1.PodFailed, p.Status
	})
}

// takes binds Pods until one runs: before an agent has registered with the
// kubelet, that takes no Pod with cards.
func (n *node) takes(t *testing.T, prefix string, units int64, uuid string) {
	t.Helper()
	const most = 60
	for attempt, running := 1, false; !running; attempt++ {
		name := fmt.Sprintf("%s-%d", prefix, attempt)
		n.bind(t, create(t, asking(name, units)), uuid)
		n.eventually(t, "the kubelet decides on "+name, func() (bool, any) {
			p := get(t, name)
			running = p.Status.Phase == corev1.PodRunning
			return running || p.Status.Reason == "UnexpectedAdmissionError", p.Status
		})
		if running {
			n.mustSee(t, name, uuid)
		} else if attempt == most {
			t.Fatalf("the kubelet took none of %d Pods after a start: %+v", most, get(t, name).Status)
		}
	}
}

// cardFallsIll: what Pods hold of the sick card goes on being theirs, and takes
// nothing of what the healthy one has: the kubelet gives exactly that, also
// after the agent has started anew and when a Pod has ended on the sick card.
// Of the healthy one's 93 chunks 28 are held, and 10 by a Pod past the scheduler.
func (n *node) cardFallsIll(t *testing.T, cards []card) {
	t.Helper()
	cards[1].Healthy = false
	n.write(t, cards)
	n.saysHealthy(t, true, false)
	n.counts(t, chunks+50+30)
	n.bind(t, create(t, asking("plugin-healthy", 25)), "SIM-a")
	n.mustSee(t, "plugin-healthy", "SIM-a")
	n.killAgent()
	n.startAgent(t)
	n.takes(t, "plugin-anew", 25, "SIM-a")
	n.counts(t, chunks+50+30)
	n.past(t, "plugin-6", 6)
	n.refuses(t, "plugin-6", "more than the healthy card has")
	remove(t, "plugin-3")
	n.counts(t, chunks+50)
	n.past(t, "plugin-also-6", 6)
	n.refuses(t, "plugin-also-6", "what was left on the sick card")
	n.past(t, "plugin-5", 5) // the last of the healthy card
	n.sees(t, "plugin-5")
	cards[1].Healthy = true
	n.write(t, cards)
	n.saysHealthy(t, true, true)
	n.counts(t, 2*chunks)
}

func TestDevicePlugin(t *testing.T) {
	t.Parallel()
	cards := []card{{"SIM-a", 0, 24576, true}, {"SIM-b", 1, 24576, true}}
	n := startNode(t, 0, "device-plugin", cards)
	n.saysHealthy(t, true, true)
	n.counts(t, 2*chunks)

	// Four are bound at one moment, and the kubelet allocates for them in whatever
	// order: each container sees the card that was decided for its own Pod.
	on := map[string]string{"plugin-1": "SIM-b", "plugin-2": "SIM-a", "plugin-3": "SIM-b", "plugin-4": "SIM-a"}
	size := map[string]int64{"plugin-1": 50, "plugin-2": 12, "plugin-3": 30, "plugin-4": 16}
	made := map[string]*corev1.Pod{}
	for name := range on {
		made[name] = create(t, asking(name, size[name]))
	}
	var together sync.WaitGroup
	for name, uuid := range on {
		together.Go(func() {
			if err := n.post(t, made[name], uuid); err != nil {
				t.Error(err)
			}
		})
	}
	together.Wait()
	for name, uuid := range on {
		n.mustSee(t, name, uuid)
	}

	// Who goes past the scheduler is counted, and sees no card although the
	// image asks for all of them.
	n.past(t, "plugin-past", 10)
	if told := n.sees(t, "plugin-past"); told["NVIDIA_VISIBLE_DEVICES"] != "void" || told["MODELDOCK_CARD"] != "" {
		t.Errorf("past the scheduler it was told %v", told)
	}
	n.past(t, "plugin-much", 100)
	n.refuses(t, "plugin-much", "what the node does not have")

	n.cardFallsIll(t, cards)

	// The kubelet and the agent start anew; what runs goes on.
	if err := n.Kubelet().Kill(); err != nil {
		t.Fatal(err)
	}
	if err := n.Kubelet().Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.takes(t, "plugin-after", 10, "SIM-a")
	n.counts(t, 2*chunks)
	if p := get(t, "plugin-1"); p.Status.Phase != corev1.PodRunning || p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("a Pod of before: %+v", p.Status)
	}
}
