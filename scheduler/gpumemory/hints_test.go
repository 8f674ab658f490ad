package gpumemory

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"modeldock.io/internal/placement"
)

func TestHintsWakeWhomItMayConcern(t *testing.T) {
	t.Parallel()
	b := setup(t, node(t, "n", 10000))
	if _, _, status := b.cycle(t, pod("seen", "1000")); !status.IsSuccess() {
		t.Fatal(status)
	}
	waiting, huge, logger := pod("waiting", "8000"), pod("huge", "20000"), klog.FromContext(t.Context())
	want := func(what string, want fwk.QueueingHint) func(fwk.QueueingHint, error) {
		return func(got fwk.QueueingHint, err error) {
			t.Helper()
			if got != want || err != nil {
				t.Errorf("%s: %s, %v; want %s", what, got, err, want)
			}
		}
	}
	left := on(pod("left", "6000"), "n", "n-0")
	want("cards became free", fwk.Queue)(b.afterDelete(logger, waiting, left, nil))
	want("cards that are too small", fwk.QueueSkip)(b.afterDelete(logger, huge, left, nil))
	plain := pod("plain", "")
	plain.Spec.NodeName = "n"
	want("a Pod without cards", fwk.QueueSkip)(b.afterDelete(logger, waiting, plain, nil))
	larger := node(t, "n", 40000)
	want("a larger card", fwk.Queue)(b.afterNode(logger, huge, b.nodes[0], larger))
	want("a new node", fwk.Queue)(b.afterNode(logger, huge, nil, larger))
	want("other annotations", fwk.QueueSkip)(b.afterNode(logger, waiting, larger, larger.DeepCopy()))
	want("too small a node", fwk.QueueSkip)(b.afterNode(logger, huge, nil, b.nodes[0]))
	edited := waiting.DeepCopy()
	edited.Annotations[placement.MemoryAnnotation] = "1000"
	want("the Pod asks for less", fwk.Queue)(afterEdit(logger, waiting, waiting, edited))
	want("the Pod has another label", fwk.QueueSkip)(afterEdit(logger, waiting, waiting, waiting.DeepCopy()))
	if _, err := b.afterDelete(logger, waiting, &v1.Node{}, nil); err == nil {
		t.Error("a node was deleted as a Pod")
	}
}

// Pods that ask for the same may share results, others must not.
func TestSignatures(t *testing.T) {
	t.Parallel()
	b := setup(t, node(t, "n", 10000))
	sign := func(p *v1.Pod) any {
		t.Helper()
		fragments, status := b.SignPod(t.Context(), p)
		if !status.IsSuccess() {
			return status.Code()
		}
		if len(fragments) == 0 {
			return nil
		}
		return fragments[0].Value
	}
	if a, c := sign(pod("a", "1000")), sign(pod("b", "1000")); a != c {
		t.Errorf("%v is not %v", a, c)
	}
	two := pod("c", "1000")
	two.Annotations[placement.CountAnnotation] = "2"
	if sign(two) == sign(pod("a", "1000")) || sign(pod("a", "1001")) == sign(pod("a", "1000")) || sign(pod("plain", "")) != nil {
		t.Error("different requests have one signature")
	}
	if sign(pod("bad", "1Gi")) != fwk.Unschedulable {
		t.Error("a bad request is signed")
	}
}
