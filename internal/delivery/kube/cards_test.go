package kube

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/delivery"
)

// knownCards is a cluster that answers the same to everybody.
type knownCards struct {
	given []delivery.Card
	short string
}

func (k knownCards) Of(*corev1.Pod) []delivery.Card { return append([]delivery.Card(nil), k.given...) }
func (k knownCards) Shortfall(int64, int) string    { return k.short }

func dressed(k Cards, change ...func(*corev1.Pod)) delivery.Replica {
	p := pod("p", change...)
	r := replica(p, object())
	(&Target{cfg: Config{Cards: k}}).dress(&r, p, object())
	return r
}

func claiming(p *corev1.Pod) {
	delete(p.Annotations, v1alpha1.AnnotationCard)
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "cards"}}
}

func TestCardsAreNamedWithTheirFacts(t *testing.T) {
	t.Parallel()
	known := knownCards{given: []delivery.Card{{UUID: "GPU-1", Index: 3, Model: "A100", MiB: 4096, Isolation: "none"}, {UUID: "GPU-2", Simulated: true}}}
	r := dressed(known, func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationCardFree] = "20000,x" })
	if len(r.Cards) != 2 || r.Cards[0].Model != "A100" || r.Cards[0].FreeMiB != 20000 || !r.Cards[1].Simulated || r.Cards[1].FreeMiB != 0 {
		t.Errorf("with facts: %+v", r.Cards)
	}
	if r := dressed(knownCards{}, func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationCardFree] = "20000" }); len(r.Cards) != 2 || r.Cards[0].FreeMiB != 20000 {
		t.Errorf("a card that nobody knows: %+v", r.Cards)
	}
	if r := dressed(known, claiming); r.Untracked || !r.Placed() || r.Cards[0].UUID != "GPU-1" {
		t.Errorf("by a claim: %+v", r)
	}
	if r := dressed(knownCards{}, claiming); r.Untracked || r.Placed() {
		t.Errorf("a claim without an allocation counts as placed: %+v", r)
	}
}

// The stock scheduler knows of claims only that they cannot be allocated; what
// is missing is told by us, and once.
func TestFiguresOfClaimsThatFitNowhere(t *testing.T) {
	t.Parallel()
	const short, stock = "largest fragment 100 MiB < 4096 MiB on node n (1 cards, 100 MiB free in total)", "0/1 nodes are available: 1 cannot allocate all claims."
	ms := object()
	ms.Status.Pods = []v1alpha1.PodStatus{{Name: "p", UID: "uid-p", Reason: string(delivery.NoFragmentFits), Message: stock}}
	ms.Spec.Replicas, ms.Spec.Budget.FundedReplicas = 1, 1
	ready(ms, string(delivery.NoFragmentFits), "Pod p: "+stock)
	pods := []*corev1.Pod{pod("p", unready, claiming, func(p *corev1.Pod) { p.Spec.NodeName = "" })}
	st := statusOf(ms, pods, now)
	(&Target{cfg: Config{Cards: knownCards{short: short}}}).dressAll(&st, pods, ms)
	if st.Reason != delivery.NoFragmentFits || !strings.Contains(st.Message, short) || strings.Count(st.Message, stock) != 1 || !strings.HasPrefix(st.Replicas[0].Message, short) {
		t.Errorf("%s: %s; its replica: %s", st.Reason, st.Message, st.Replicas[0].Message)
	}
}
