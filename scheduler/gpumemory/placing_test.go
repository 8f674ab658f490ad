package gpumemory

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"modeldock.io/internal/placement"
)

// Free memory on two cards is not free memory on one.
func TestCardsAreCountedOneByOne(t *testing.T) {
	t.Parallel()
	b := setup(t, node(t, "n", 24576, 24576))
	cards := map[string]int{}
	for _, p := range []*v1.Pod{pod("a", "10000"), pod("b", "10000"), pod("c", "12000")} {
		_, card := b.place(t, p)
		cards[card]++
	}
	if cards["n-0"]+cards["n-1"] != 3 || cards["n-0"] == 0 || cards["n-1"] == 0 {
		t.Errorf("cards %v: 24576 MiB less 3 %% hold two of these at most", cards)
	}
	_, _, status := b.cycle(t, pod("d", "15000"))
	if want := "MiB < 15000 MiB on node n (2 cards, "; status.Code() != fwk.Unschedulable || !strings.Contains(status.Message(), want) || !strings.HasPrefix(status.Message(), "largest fragment ") {
		t.Errorf("%s %q, want …%q…", status.Code(), status.Message(), want)
	}
	// What no eviction could help is said to be so.
	if _, _, status := b.cycle(t, pod("e", "24000")); status.Code() != fwk.UnschedulableAndUnresolvable {
		t.Errorf("more than a card has: %s", status)
	}
}

func TestBadRequestsNeverFit(t *testing.T) {
	t.Parallel()
	b := setup(t, node(t, "n", 24576))
	for _, value := range []string{"", "0", "-5", "0x10", "1.5", "8000Mi", "8Gi", " 8000", "8000 ", "+8000", "1e3", "八千", "9223372036854775807", "9223372036854775808", "18446744073709551616"} {
		p := pod("bad", "1")
		p.Annotations[placement.MemoryAnnotation] = value
		_, _, status := b.cycle(t, p)
		if status.Code() != fwk.UnschedulableAndUnresolvable || !strings.Contains(status.Message(), placement.MemoryAnnotation) {
			t.Errorf("%q: %s", value, status)
		}
	}
	if _, card := b.place(t, pod("good", "8000")); card != "n-0" {
		t.Errorf("a good Pod after them got %q", card)
	}
	state := framework.NewCycleState()
	if _, status := b.PreFilter(t.Context(), state, pod("plain", ""), nil); !status.IsSkip() {
		t.Errorf("a Pod without cards: %s", status)
	}
}

// Decisions count from Reserve on, and again after a restart that knows only
// what the API server has.
func TestWhatIsDecidedCounts(t *testing.T) {
	t.Parallel()
	b := setup(t, node(t, "n", 10000))
	first := pod("a", "6000")
	n, card := b.place(t, first)
	if _, _, status := b.cycle(t, pod("b", "6000")); status.IsSuccess() {
		t.Error("the assumed Pod is not counted")
	}
	again := setup(t, b.nodes...)
	again.pods = []*v1.Pod{on(first.DeepCopy(), n, card)}
	if _, _, status := again.cycle(t, pod("b", "6000")); status.IsSuccess() {
		t.Error("after a restart the bound Pod is not counted")
	}
	ending := again.pods[0].DeepCopy()
	ending.DeletionTimestamp = &metav1.Time{Time: b.clock.Now()}
	again.pods = []*v1.Pod{ending}
	if _, _, status := again.cycle(t, pod("b", "6000")); status.IsSuccess() {
		t.Error("a Pod that is ending is not counted")
	}
	ended := ending.DeepCopy()
	ended.Status.Phase = v1.PodFailed
	again.pods = []*v1.Pod{ended}
	if _, card := again.place(t, pod("b", "6000")); card != "n-0" {
		t.Errorf("beside a finished Pod: %q", card)
	}
}

// A Pod that somebody else bound counts on every card, because nobody knows
// which it uses; one whose size was made unreadable counts a whole card.
func TestForeignPodsGainNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, node(t, "n", 10000, 10000))
	foreign := pod("foreign", "6000")
	foreign.Spec.NodeName = "n"
	b.pods = []*v1.Pod{foreign}
	if _, _, status := b.cycle(t, pod("a", "6000")); status.IsSuccess() {
		t.Error("a card may be used by two Pods of 6000 MiB")
	}
	edited := on(pod("edited", "4Gi"), "n", "n-0")
	b.pods = []*v1.Pod{edited}
	if _, card := b.place(t, pod("b", "1000")); card != "n-1" {
		t.Errorf("beside a Pod of unknown size: %q", card)
	}
}

func TestUnreserveIsIdempotent(t *testing.T) {
	t.Parallel()
	b := setup(t, node(t, "n", 10000))
	p := pod("a", "6000")
	b.Unreserve(t.Context(), nil, p, "n") // never reserved
	_, state, status := b.cycle(t, p)
	if !status.IsSuccess() {
		t.Fatal(status)
	}
	before, _ := b.ledger.find(p.UID, "n")
	if status := b.Reserve(t.Context(), state, p, "n"); !status.IsSuccess() {
		t.Errorf("reserve again: %s", status)
	}
	if after, _ := b.ledger.find(p.UID, "n"); after.cards[0] != before.cards[0] || len(b.ledger.all()) != 1 {
		t.Errorf("%+v became %+v", before, b.ledger.all())
	}
	for range 2 {
		b.Unreserve(t.Context(), state, p, "n")
	}
	if held := b.ledger.all(); len(held) != 0 {
		t.Errorf("after Unreserve there is %+v", held)
	}
}

// Preemption asks about a node without its victims, and counts whom it promised
// their place.
func TestVictimsAndNominatedPods(t *testing.T) {
	t.Parallel()
	b := setup(t, node(t, "n", 10000, 10000))
	victim, other := on(pod("victim", "7000"), "n", "n-0"), on(pod("other", "9000"), "n", "n-1")
	b.pods = []*v1.Pod{victim, other}
	b.refresh()
	state := framework.NewCycleState()
	preemptor := pod("preemptor", "8000")
	if _, status := b.PreFilter(t.Context(), state, preemptor, nil); !status.IsSuccess() {
		t.Fatal(status)
	}
	info := b.info(t, "n")
	if status := b.Filter(t.Context(), state, preemptor, info); status.Code() != fwk.Unschedulable {
		t.Fatalf("with the victim: %s", status)
	}
	without := info.Snapshot()
	if err := without.RemovePod(klog.FromContext(t.Context()), victim); err != nil {
		t.Fatal(err)
	}
	if status := b.Filter(t.Context(), state, preemptor, without); !status.IsSuccess() {
		t.Errorf("without the victim: %s", status)
	}
	if status := b.Filter(t.Context(), state, preemptor, info); status.Code() != fwk.Unschedulable {
		t.Errorf("the simulation changed the node: %s", status)
	}
	// The victim is ending; its place is the preemptor's and nobody else's.
	ending := victim.DeepCopy()
	ending.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	b.pods = []*v1.Pod{ending, other, preemptor}
	b.nodes = []*v1.Node{b.nodes[0]}
	b.refresh()
	nominated := b.info(t, "n").Snapshot()
	podInfo, err := framework.NewPodInfo(preemptor)
	if err != nil {
		t.Fatal(err)
	}
	nominated.AddPodInfo(podInfo)
	small := pod("small", "2500")
	state = framework.NewCycleState()
	if _, status := b.PreFilter(t.Context(), state, small, nil); !status.IsSuccess() {
		t.Fatal(status)
	}
	if status := b.Filter(t.Context(), state, small, nominated); status.IsSuccess() {
		t.Error("a small Pod takes room that a preemption made for another")
	}
}

// What was promised is kept from others also before the victims are ending,
// which the framework sees to in the background.
func TestPromisesAreKeptBeforeVictimsEnd(t *testing.T) {
	t.Parallel()
	b := setup(t, node(t, "n", 10000, 10000, 10000))
	critical := int32(2000)
	firm := on(pod("firm", "9000"), "n", "n-2")
	firm.Spec.Priority = &critical
	b.pods = []*v1.Pod{on(pod("victim", "7000"), "n", "n-0"), on(pod("other", "6000"), "n", "n-1"), firm}
	b.refresh()
	urgent := int32(1000)
	fits := func(asked *v1.Pod, nominated ...*v1.Pod) bool {
		info := b.info(t, "n").Snapshot()
		for _, p := range nominated {
			podInfo, err := framework.NewPodInfo(p)
			if err != nil {
				t.Fatal(err)
			}
			info.AddPodInfo(podInfo)
		}
		state := framework.NewCycleState()
		if _, status := b.PreFilter(t.Context(), state, asked, nil); !status.IsSuccess() {
			t.Fatal(status)
		}
		return b.Filter(t.Context(), state, asked, info).IsSuccess()
	}
	promised := pod("promised", "8000")
	promised.Spec.Priority = &urgent
	if fits(pod("small", "2500"), promised) {
		t.Error("a small Pod takes room for which a preemption is about to evict")
	}
	if !fits(pod("small", "500"), promised) {
		t.Error("the card of a Pod that is more important was not promised to anybody")
	}
	hopeless := pod("hopeless", "8000")
	if !fits(pod("small", "2500"), hopeless) {
		t.Error("a Pod that could evict nobody here keeps others away")
	}
}
