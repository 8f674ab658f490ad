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
	n.foreignBinding(t)
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
	n.fragmentsAreTold(t, "waits", want)
	var gone string
	for name, c := range on {
		if used[c] == map[string]int64{"ten": 10000, "another-ten": 10000, "twelve": 12000}[name] { // alone on its card
			n.ends(t, name)
			gone = c
			break
		}
	}
	card := n.decidedSoon(t, "waits", largest+1)
	n.mustSee(t, card.pod, card.uuid)

	// What is left of each card is given to the last MiB: the kubelet's account,
	// which is of the node and in units, is not exhausted before.
	delete(used, gone)
	used[card.uuid] += largest + 1
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
	uuid := n.decidedFor(t, "small")
	if told := n.sees(t, "small"); told["NVIDIA_VISIBLE_DEVICES"] != uuid {
		t.Errorf("with a ConfigMap of its own it was told %v, and decided was %s", told, uuid)
	}
}

// decidedOn is a Pod and its card.
type decidedOn struct{ pod, uuid string }

// decidedSoon tells whether a Pod that waits has a card within 2 s of the end of
// the one that had its room: once in three times, as others may have the machine.
func (n *node) decidedSoon(t *testing.T, waiting string, mib int64) decidedOn {
	t.Helper()
	const soon = 2 * time.Second
	var took []time.Duration
	for i := range 3 {
		began := time.Now()
		on := decidedOn{waiting, n.decidedFor(t, waiting)}
		took = append(took, time.Since(began))
		if took[i] < soon {
			t.Logf("it was placed %s after another was gone", took[i].Round(10*time.Millisecond))
			return on
		}
		waiting = fmt.Sprint("waits-", i)
		create(t, n.wanting(waiting, fmt.Sprint(mib)))
		n.fragmentsAreTold(t, waiting, fmt.Sprintf("< %d MiB on node %s", mib, n.Name))
		n.ends(t, on.pod)
	}
	t.Errorf("after another was gone it took %v until a Pod had its card; want less than %s", took, soon)
	return decidedOn{waiting, n.decidedFor(t, waiting)}
}

// fragmentsAreTold waits until a Pod is told by the scheduler why it waits.
func (n *node) fragmentsAreTold(t *testing.T, name, says string) {
	t.Helper()
	n.eventually(t, name+" is told why it waits", func() (bool, any) {
		for _, c := range get(t, name).Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && strings.Contains(c.Message, says) {
				return true, nil
			}
		}
		return false, get(t, name).Status
	})
}

// ends deletes a Pod and waits until it is gone.
func (n *node) ends(t *testing.T, name string) {
	t.Helper()
	remove(t, name)
	n.eventually(t, name+" is gone", func() (bool, any) {
		_, err := ground.client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
}

// foreignBinding: who binds a Pod past the scheduler gets it a place and no card,
// and no other Pod gets memory that it may use.
func (n *node) foreignBinding(t *testing.T) {
	t.Helper()
	p := create(t, n.wanting("foreign", "30000"))
	n.fragmentsAreTold(t, "foreign", "< 30000 MiB on node "+n.Name)
	err := ground.client.CoreV1().Pods(namespace).Bind(t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: namespace, UID: p.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: n.Name},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n.mustSee(t, "foreign", "")
	create(t, n.wanting("behind", "1000"))
	n.fragmentsAreTold(t, "behind", "largest fragment 0 MiB < 1000 MiB on node "+n.Name)
	n.ends(t, "foreign")
	n.decidedFor(t, "behind")
	n.ends(t, "behind")
}
