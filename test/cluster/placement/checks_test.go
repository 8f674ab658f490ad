//go:build cluster

package placement

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"modeldock.io/internal/placement"
)

// The checks of the storm object to what they are there for.
func TestStormChecksObject(t *testing.T) {
	t.Parallel()
	two := func(p *corev1.Pod) { p.Annotations[placement.CountAnnotation] = "2" }
	for name, c := range map[string]struct {
		pods []*corev1.Pod
		want string
	}{
		"nothing wrong": {pods: []*corev1.Pod{at("a", "9000", "gpu-0", "SIM-0-0"), at("b", "700", "gpu-0", "SIM-0-0"), at("c", "9700", "gpu-0", "SIM-0-1")}},
		"a card over capacity": {
			pods: []*corev1.Pod{at("a", "9000", "gpu-0", "SIM-0-0"), at("b", "701", "gpu-0", "SIM-0-0")},
			want: "SIM-0-0 holds 9701 of 9700 MiB",
		},
		"the second of two cards": {
			pods: []*corev1.Pod{at("a", "9000", "gpu-0", "SIM-0-1"), at("b", "5000", "gpu-0", "SIM-0-0,SIM-0-1", two)},
			want: "SIM-0-1 holds 14000",
		},
		"one card twice":          {pods: []*corev1.Pod{at("a", "100", "gpu-0", "SIM-0-0,SIM-0-0", two)}, want: "a is on gpu-0"},
		"another node's card":     {pods: []*corev1.Pod{at("a", "100", "gpu-0", "SIM-1-0")}, want: "a is on gpu-0"},
		"bound without a card":    {pods: []*corev1.Pod{at("a", "100", "gpu-0", "")}, want: "a is on gpu-0"},
		"too few cards":           {pods: []*corev1.Pod{at("a", "100", "gpu-0", "SIM-0-0", two)}, want: "a asks for"},
		"nonsense that was bound": {pods: []*corev1.Pod{at("a", "4Gi", "gpu-0", "SIM-0-0")}, want: "a asks for"},
		"a decision that changed": {pods: []*corev1.Pod{at("a", "100", "gpu-0", "SIM-0-0"), at("a", "100", "gpu-0", "SIM-0-1")}, want: "a went from"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAccounts(2, 2, same(10000))
			for _, p := range c.pods {
				a.see(p, false)
			}
			if all := strings.Join(a.wrong, "\n"); (c.want == "") != (all == "") || !strings.Contains(all, c.want) {
				t.Errorf("it says %q, want %q", all, c.want)
			}
		})
	}
}

// What has ended is counted no more; what is ending is.
func TestStormChecksForget(t *testing.T) {
	t.Parallel()
	a := newAccounts(1, 1, same(10000))
	ending := at("a", "9000", "gpu-0", "SIM-0-0")
	ending.DeletionTimestamp = &metav1.Time{}
	a.see(ending, false)
	if a.largest() != 700 {
		t.Errorf("%d MiB are free beside a Pod that is ending", a.largest())
	}
	a.see(ending, true)
	done := at("b", "9000", "gpu-0", "SIM-0-0")
	a.see(done, false)
	done.Status.Phase = corev1.PodSucceeded
	a.see(done, false)
	if a.largest() != 9700 || len(a.wrong) != 0 {
		t.Errorf("%d MiB are free in the end: %v", a.largest(), a.wrong)
	}
}

// A Pod that waits although it fits, that is not told why, or whose memory the
// scheduler counts otherwise, is not how a storm ends.
func TestStormChecksEnd(t *testing.T) {
	t.Parallel()
	a := newAccounts(2, 2, same(10000))
	a.see(at("a", "9000", "gpu-0", "SIM-0-0"), false)
	told := func(text string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: text}}
		}
	}
	three := func(p *corev1.Pod) { p.Annotations[placement.CountAnnotation] = "3" }
	for want, p := range map[string]*corev1.Pod{
		"":                         at("fits nowhere", "9701", "", "", told("no card with 9701 MiB free")),
		"free on gpu-0":            at("fits", "9700", "", "", told("no card with 9700 MiB free")),
		"waits and is told":        at("silent", "9701", "", ""),
		"asks for nonsense and is": at("nonsense", "4Gi", "", "", told("0/2 nodes are available")),
	} {
		if err := stays(a, []corev1.Pod{*p}); (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", p.Name, err, want)
		}
	}
	if err := stays(a, []corev1.Pod{*at("three", "100", "", "", three, told("fewer than 3 cards with 100 MiB free each"))}); err != nil {
		t.Errorf("three cards of one node: %v", err)
	}
	var lines []string
	for _, card := range []string{"SIM-0-0", "SIM-0-1", "SIM-1-0", "SIM-1-1"} {
		lines = append(lines, fmt.Sprintf(`modeldock_gpu_memory_allocated_bytes{card=%q,node="gpu-%c"} 0`, card, card[4]))
	}
	lines[0] = `modeldock_gpu_memory_allocated_bytes{card="SIM-0-0",node="gpu-0"} 9.437184e+09`
	right := append(slices.Clone(lines), `modeldock_gpu_memory_ledger_drift_bytes{node="gpu-0"} 0`, "modeldock_gpu_memory_bindings_in_doubt 0", "# a comment", "other 1")
	if err := equal(a, strings.Join(right, "\n")); err != nil {
		t.Error(err)
	}
	for _, wrong := range [][]string{
		right[1:],
		append(slices.Clone(right), `modeldock_gpu_memory_ledger_drift_bytes{node="gpu-1"} 1`),
		append(slices.Clone(right), "modeldock_gpu_memory_bindings_in_doubt 1"),
		append(slices.Clone(right), `modeldock_gpu_memory_allocated_bytes{card="SIM-0-1",node="gpu-0"} 1.048576e+06`),
	} {
		if equal(a, strings.Join(wrong, "\n")) == nil {
			t.Errorf("no objection to %q", wrong)
		}
	}
}

// The same seed is the same storm, and another one is another.
func TestStormIsReproducible(t *testing.T) {
	t.Parallel()
	one, again, other := plan(7, 300), plan(7, 300), plan(8, 300)
	if !slices.Equal(one, again) || slices.Equal(one, other) {
		t.Error("the plan does not follow from the seed")
	}
	met := func(seed uint64) (faults []string) {
		w := newWeather(nil, seed)
		for i := range 300 {
			faults = append(faults, w.fault(fmt.Sprintf("p-%d", i%100)))
		}
		return faults
	}
	if !slices.Equal(met(7), met(7)) || slices.Equal(met(7), met(8)) {
		t.Error("the faults do not follow from the seed")
	}
}

// at is a Pod on a card, or one that waits; its UID is its name.
func at(name, memory, node, cards string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Annotations: map[string]string{placement.MemoryAnnotation: memory, cardKey: cards}},
		Spec:       corev1.PodSpec{NodeName: node},
	}
	for _, c := range change {
		c(p)
	}
	return p
}
