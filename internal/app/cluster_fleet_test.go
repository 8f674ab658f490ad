package app

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/placement/nodecards"
)

func cardNode(t *testing.T, name string, cards ...nodecards.Card) *corev1.Node {
	t.Helper()
	text, err := nodecards.Encode(cards)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{nodecards.Annotation: text}}}
}

func holdingPod(uid, node, cards, memory string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "models", Name: uid, UID: types.UID("uid-" + uid), Annotations: map[string]string{
			v1alpha1.AnnotationCard: cards, v1alpha1.AnnotationGPUMemory: memory, v1alpha1.AnnotationTenant: "team-a", v1alpha1.AnnotationID: "demo",
		}},
		Spec: corev1.PodSpec{NodeName: node},
	}
}

// The cards are those that the agent described; what Pods were given is taken,
// with the same reserve that the scheduler keeps.
func TestClusterFleetShowsCardsAndWhoHoldsThem(t *testing.T) {
	t.Parallel()
	card := func(uuid string, index int, healthy bool) nodecards.Card {
		return nodecards.Card{UUID: uuid, Index: index, Model: "m", TotalMiB: 10_000, Healthy: healthy, Isolation: nodecards.IsolationMPS, Simulated: true}
	}
	client := fake.NewClientset(
		cardNode(t, "gpu-1", card("c0", 0, true), card("c1", 1, true), card("c2", 2, false)),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "plain"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "unreadable", Annotations: map[string]string{nodecards.Annotation: "{"}}},
		holdingPod("one", "gpu-1", "c0,c1", "3000"), holdingPod("two", "gpu-1", "c0", "1000"),
		holdingPod("elsewhere", "plain", "c1", "500"), holdingPod("odd", "gpu-1", "c1", "many"),
	)
	nodes, err := clusterFleet{client}.Nodes(t.Context())
	if err != nil || len(nodes) != 3 {
		t.Fatalf("%d nodes, %v", len(nodes), err)
	}
	gpu := nodes[0]
	if gpu.Node != "gpu-1" || !gpu.Simulated || len(gpu.Cards) != 3 || gpu.LargestFragmentMiB != 10_000-300-3000 {
		t.Fatalf("the node is %+v", gpu)
	}
	for i, want := range []struct {
		allocated, free int64
		held            int
	}{{4000, 5700, 2}, {3000, 6700, 1}, {0, 0, 0}} {
		c := gpu.Cards[i]
		if c.Index != i || c.AllocatedMiB != want.allocated || c.FreeMiB != want.free || len(c.Allocations) != want.held || c.MeasuredMiB != nil || c.Isolation != "mps" {
			t.Errorf("card %d is %+v, want %+v", i, c, want)
		}
	}
	if a := gpu.Cards[1].Allocations[0]; a.Tenant != "team-a" || a.RequestId != "demo" || a.Mib != 3000 {
		t.Errorf("the allocation is %+v", a)
	}
	for _, n := range nodes[1:] {
		if n.Cards == nil || len(n.Cards) != 0 {
			t.Errorf("%s has cards: %+v", n.Node, n.Cards)
		}
	}
}

// A cluster without cards is not asked for all its Pods.
func TestClusterFleetWithoutCardsListsNoPods(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "plain"}})
	if _, err := (clusterFleet{client}).Nodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := calls(client); got != "list" {
		t.Errorf("it took %q", got)
	}
}
