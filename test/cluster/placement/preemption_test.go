//go:build cluster

package placement

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"modeldock.io/internal/placement"
)

const (
	// Of each card of these tests 9932 MiB are for Pods.
	preemptionMiB = 10240
	holdFinalizer = "modeldock.io/held-by-a-test"
)

// Who is more important evicts exactly enough, and gets what it evicted for.
func TestPreemption(t *testing.T) {
	t.Parallel()
	b := setup(t, 2, 2, same(preemptionMiB))
	b.class("medium", 500)
	b.class("urgent", 1000)
	b.class("critical", 2000)
	b.inTurn([]part{
		{"one card", oneVictim},
		{"the node with the fewest victims", fewestVictims},
		{"several cards, of the least important", severalCards},
		{"a budget is kept where it can be", keepsBudget},
		{"nobody takes what was promised", promisedPlace},
		{"the more important one takes what was promised", overtaken},
		{"another place that comes free is taken", otherPlace},
	})
}

func oneVictim(b *bundle) {
	for i := range 4 {
		b.place(fmt.Sprintf("low-%d", i), 4000, on("gpu-0"))
	}
	before := b.pods()
	b.create("urgent", 5000, important("urgent"), on("gpu-0"))
	b.evictedFor("urgent", before, 1)
}

// One of 9000 MiB goes rather than two of 4000.
func fewestVictims(b *bundle) {
	for i := range 2 {
		b.place(fmt.Sprintf("large-%d", i), 9000, on("gpu-0"))
	}
	for i := range 4 {
		b.place(fmt.Sprintf("small-%d", i), 4000, on("gpu-1"))
	}
	before := b.pods()
	b.create("urgent", 9000, important("urgent"))
	if victims := b.evictedFor("urgent", before, 1); !strings.HasPrefix(victims[0], "large-") {
		b.t.Errorf("%v went", victims)
	}
}

// Both cards of a node are needed: all three unimportant Pods of the one go, and
// not the two of the other that are more important. A fourth that is not in the
// way stays.
func severalCards(b *bundle) {
	for i := range 2 {
		b.place(fmt.Sprintf("medium-%d", i), 9000, on("gpu-1"), important("medium"))
	}
	b.place("large", 9000, on("gpu-0"))
	b.place("a", 4500, on("gpu-0"))
	b.place("b", 4500, on("gpu-0"))
	b.place("tiny", 900, on("gpu-0"))
	before := b.pods()
	b.create("urgent", 6000, important("urgent"), onCards(2))
	for _, victim := range b.evictedFor("urgent", before, 3) {
		if victim == "tiny" || strings.HasPrefix(victim, "medium-") {
			b.t.Errorf("%s went", victim)
		}
	}
}

// Of two nodes that are alike, the one whose Pods no budget protects.
func keepsBudget(b *bundle) {
	labelled := func(p *corev1.Pod) { p.Labels = map[string]string{"kept": "yes"} }
	two := intstr.FromInt32(2)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "kept"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &two, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"kept": "yes"}}},
	}
	budgets := b.client.PolicyV1().PodDisruptionBudgets(namespace)
	if _, err := budgets.Create(b.t.Context(), budget, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	// Those of the other node are larger and younger, so that all else speaks for the kept ones.
	for i := range 2 {
		b.place(fmt.Sprintf("kept-%d", i), 7000, on("gpu-0"), labelled)
	}
	for i := range 4 {
		b.place(fmt.Sprintf("other-%d", i), 4900, on("gpu-1"))
	}
	b.eventually(func(ctx context.Context) error {
		now, err := budgets.Get(ctx, "kept", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := now.Status; s.CurrentHealthy != 2 || s.DisruptionsAllowed != 0 || s.DesiredHealthy != 2 {
			return fmt.Errorf("the budget has %d healthy Pods of %d and allows %d disruptions", s.CurrentHealthy, s.DesiredHealthy, s.DisruptionsAllowed)
		}
		return nil
	})
	before := b.pods()
	b.create("urgent", 9000, important("urgent"))
	for _, victim := range b.evictedFor("urgent", before, 2) {
		if !strings.HasPrefix(victim, "other-") {
			b.t.Errorf("%s went although its budget allows no disruption", victim)
		}
	}
	if err := budgets.Delete(b.t.Context(), "kept", metav1.DeleteOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// While a victim is ending, nobody less important gets the rest of the card that
// its successor needs, not even from a scheduler that was killed meanwhile.
func promisedPlace(b *bundle) {
	b.fill("gpu-1", 2)
	b.place("other", 9900, on("gpu-0"), important("critical"))
	victim := b.place("victim", 7000, on("gpu-0"), held)
	b.create("urgent", 8000, important("urgent"))
	b.nominated("urgent", "gpu-0")
	b.create("small", 2500)
	b.pending("small")
	if err := b.scheduler.Kill(); err != nil {
		b.t.Fatal(err)
	}
	b.create("tiny", 2000)
	if err := b.scheduler.Start(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	b.pending("tiny")
	b.release("victim")
	if urgent := b.placed("urgent"); urgent.Annotations[cardKey] != victim.Annotations[cardKey] {
		b.t.Errorf("urgent got card %s; its victim had %s", urgent.Annotations[cardKey], victim.Annotations[cardKey])
	}
	b.pending("small")
	b.pending("tiny")
}

// A Pod that is still more important takes the place, and evicts nobody else.
func overtaken(b *bundle) {
	b.fill("gpu-1", 2)
	b.place("other", 9900, on("gpu-0"), important("critical"))
	b.place("victim", 7000, on("gpu-0"), held)
	b.create("urgent", 8000, important("urgent"))
	b.nominated("urgent", "gpu-0")
	b.create("critical", 9000, important("critical"))
	b.nominated("critical", "gpu-0")
	b.release("victim")
	b.placed("critical")
	b.pending("urgent")
	if left := len(b.pods()); left != 5 {
		b.t.Errorf("%d Pods are left of 6; only the victim had to go", left)
	}
}

// Whoever was promised a place takes another one that comes free before it, and
// whoever waited for the rest of the first one gets that at once.
func otherPlace(b *bundle) {
	b.fill("gpu-1", 2)
	b.place("other", 9900, on("gpu-0"), important("critical"))
	b.place("victim", 7000, on("gpu-0"), held)
	b.create("urgent", 8000, important("urgent"))
	b.nominated("urgent", "gpu-0")
	b.create("small", 2900)
	b.pending("small")
	b.delete("gpu-1-full-0")
	if urgent := b.placed("urgent"); urgent.Spec.NodeName != "gpu-1" {
		b.t.Errorf("urgent is on %s", urgent.Spec.NodeName)
	}
	if small := b.placed("small"); small.Spec.NodeName != "gpu-0" {
		b.t.Errorf("small is on %s", small.Spec.NodeName)
	}
	b.release("victim")
}

// fill takes whole cards of a node, for good.
func (b *bundle) fill(node string, cards int) {
	b.t.Helper()
	for i := range cards {
		b.place(fmt.Sprintf("%s-full-%d", node, i), 9900, on(node), important("critical"))
	}
}

func (b *bundle) place(name string, mib int64, change ...func(*corev1.Pod)) *corev1.Pod {
	b.t.Helper()
	b.create(name, mib, change...)
	return b.placed(name)
}

func on(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node} }
}

func onCards(n int) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations[placement.CountAnnotation] = fmt.Sprint(n) }
}

func important(class string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.PriorityClassName = class }
}

// held keeps a Pod ending until it is released.
func held(p *corev1.Pod) { p.Finalizers = []string{holdFinalizer} }

func (b *bundle) release(name string) {
	b.t.Helper()
	b.eventually(func(ctx context.Context) error {
		pod, err := b.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pod.DeletionTimestamp == nil {
			return fmt.Errorf("%s is not ending", name)
		}
		_, err = b.client.CoreV1().Pods(namespace).Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		return err
	})
}

func (b *bundle) class(name string, value int32) {
	b.t.Helper()
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
	if _, err := b.client.SchedulingV1().PriorityClasses().Create(b.t.Context(), class, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	b.eventually(func(ctx context.Context) error { // the admission of Pods hears of it later
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "dry"}, Spec: corev1.PodSpec{PriorityClassName: name, Containers: []corev1.Container{{Name: "engine", Image: "x"}}}}
		_, err := b.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
}

// nominated waits until a Pod was promised a node.
func (b *bundle) nominated(name, node string) {
	b.t.Helper()
	b.eventually(func(ctx context.Context) error {
		pod, err := b.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pod.Status.NominatedNodeName != node || pod.Spec.NodeName != "" {
			return fmt.Errorf("%s is nominated for %q and bound to %q", name, pod.Status.NominatedNodeName, pod.Spec.NodeName)
		}
		return nil
	})
}

// pods are all there are, by name.
func (b *bundle) pods() map[string]*corev1.Pod {
	b.t.Helper()
	list, err := b.client.CoreV1().Pods(namespace).List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	all := map[string]*corev1.Pod{}
	for i := range list.Items {
		all[list.Items[i].Name] = &list.Items[i]
	}
	return all
}

// evictedFor waits until a Pod is placed and returns who went for it: as many
// as wanted, and nobody without whose end it would have fitted too.
func (b *bundle) evictedFor(name string, before map[string]*corev1.Pod, want int) (victims []string) {
	b.t.Helper()
	winner := b.placed(name)
	var after map[string]*corev1.Pod
	b.eventually(func(context.Context) error {
		after = b.pods()
		for _, p := range after {
			if p.DeletionTimestamp != nil {
				return fmt.Errorf("%s is still ending", p.Name)
			}
		}
		return nil
	})
	for old, p := range before {
		if now := after[old]; now == nil || now.UID != p.UID {
			victims = append(victims, old)
		}
	}
	slices.Sort(victims)
	if len(victims) != want {
		b.t.Fatalf("%v went for %s on %s; %d had to", victims, name, winner.Spec.NodeName, want)
	}
	mib, cards, _ := asked(winner)
	for _, spared := range victims {
		a := newAccounts(2, 2, same(preemptionMiB))
		for old, p := range before {
			if old == spared || !slices.Contains(victims, old) {
				a.see(p, false)
			}
		}
		if before[spared].Spec.NodeName != winner.Spec.NodeName || a.able(mib)[winner.Spec.NodeName] >= cards {
			b.t.Errorf("%s on %s went for nothing: %s is on %s with the cards %s", spared, before[spared].Spec.NodeName, name, winner.Spec.NodeName, winner.Annotations[cardKey])
		}
	}
	return victims
}

// part is a test on a bundle that others use, too.
type part struct {
	name string
	test func(*bundle)
}

// inTurn runs each on what the one before has left empty, up to the first that
// fails: what it left behind would fail the others.
func (b *bundle) inTurn(parts []part) {
	b.t.Helper()
	for _, p := range parts {
		if !b.t.Run(p.name, func(t *testing.T) {
			sub := *b
			sub.t = t
			p.test(&sub)
			sub.clear()
		}) {
			return
		}
	}
}

// clear deletes all Pods and waits until the last one is gone.
func (b *bundle) clear() {
	b.t.Helper()
	for name := range b.pods() {
		if err := b.client.CoreV1().Pods(namespace).Delete(b.t.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			b.t.Fatal(err)
		}
	}
	b.eventually(func(context.Context) error {
		if left := len(b.pods()); left > 0 {
			return fmt.Errorf("%d Pods are left", left)
		}
		return nil
	})
}
