//go:build cluster

package cards

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"modeldock.io/internal/placement"
)

// wanting is a Pod as a user writes it: an annotation says what it needs, and
// nothing else is said of cards.
func (n *node) wanting(name, mib string, change ...func(*corev1.Pod)) *corev1.Pod {
	return pod(name, func(p *corev1.Pod) {
		p.Annotations = map[string]string{placement.MemoryAnnotation: mib}
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: n.Name}
		for _, c := range change {
			c(p)
		}
	})
}

// decidedFor waits for the scheduler's decision.
func (n *node) decidedFor(t *testing.T, name string) (card string) {
	t.Helper()
	n.eventually(t, "a card is decided for "+name, func() (bool, any) {
		p := get(t, name)
		card = p.Annotations[decision]
		return p.Spec.NodeName == n.Name && card != "", p.Status
	})
	return card
}

// From an annotation to the container: the scheduler decides by the memory of
// each card, the policies add what a user leaves out, and each container sees
// exactly its card. One that fits no card waits, says why with figures, and is
// placed once another has ended.
func TestScheduledAndDelivered(t *testing.T) {
	t.Parallel()
	n := startNode(t, 2, "device-plugin", []card{{"SIM-1", 0, 24576, true}, {"SIM-2", 1, 24576, true}})
	n.saysHealthy(t, true, true)
	n.counts(t, 2*chunks)
	room := int64(24576) - placement.DefaultReserve().Of(24576)

	on := map[string]string{}
	used := map[string]int64{}
	for _, p := range []struct {
		name string
		mib  int64
	}{{"ten", 10000}, {"another-ten", 10000}, {"twelve", 12000}} {
		create(t, n.wanting(p.name, fmt.Sprint(p.mib)))
		on[p.name] = n.decidedFor(t, p.name)
		used[on[p.name]] += p.mib
		n.mustSee(t, p.name, on[p.name])
	}
	var largest int64
	for _, c := range []string{"SIM-1", "SIM-2"} {
		if used[c] > room {
			t.Errorf("%s holds %d of %d MiB", c, used[c], room)
		}
		largest = max(largest, room-used[c])
	}

	// One more than the largest fragment, which the node's total would hold.
	create(t, n.wanting("waits", fmt.Sprint(largest+1)))
	want := fmt.Sprintf("largest fragment %d MiB < %d MiB on node %s (2 cards, ", largest, largest+1, n.Name)
	n.eventually(t, "the fourth says why it waits", func() (bool, any) {
		for _, c := range get(t, "waits").Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && strings.Contains(c.Message, want) {
				return true, nil
			}
		}
		return false, get(t, "waits").Status
	})
	var gone string
	for name, c := range on {
		if used[c] == map[string]int64{"ten": 10000, "another-ten": 10000, "twelve": 12000}[name] { // alone on its card
			remove(t, name)
			gone = c
			n.eventually(t, name+" is gone", func() (bool, any) {
				_, err := ground.client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
				return apierrors.IsNotFound(err), err
			})
			break
		}
	}
	began := time.Now()
	card := n.decidedFor(t, "waits")
	t.Logf("it was placed %s after another was gone", time.Since(began).Round(10*time.Millisecond))
	n.mustSee(t, "waits", card)

	// What is left of each card is given to the last MiB: the kubelet's account,
	// which is of the node and in units, is not exhausted before.
	delete(used, gone)
	used[card] += largest + 1
	both := []string{"SIM-1", "SIM-2"}
	slices.SortFunc(both, func(a, b string) int { return cmp.Compare(used[a], used[b]) }) // the larger rest fits no other card
	for i, c := range both {
		name := fmt.Sprint("rest-", i)
		create(t, n.wanting(name, fmt.Sprint(room-used[c])))
		if got := n.decidedFor(t, name); got != c {
			t.Errorf("%s got %s, want the rest of %s", name, got, c)
		}
		n.mustSee(t, name, c)
	}
	for i := range 2 {
		remove(t, fmt.Sprint("rest-", i))
	}

	// A ConfigMap does not show it the others' cards.
	if _, err := ground.cluster.Kubectl(t.Context(), "create", "configmap", "everything", "--from-literal=NVIDIA_VISIBLE_DEVICES=all"); err != nil {
		t.Fatal(err)
	}
	create(t, n.wanting("small", "100", func(p *corev1.Pod) {
		p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "everything"}}}}
	}))
	card = n.decidedFor(t, "small")
	if told := n.sees(t, "small"); told["NVIDIA_VISIBLE_DEVICES"] != card {
		t.Errorf("with a ConfigMap of its own it was told %v, and decided was %s", told, card)
	}
}
