//go:build cluster

package placement

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"modeldock.io/internal/placement"
	"modeldock.io/test/cluster"
)

// caseMiB leaves 16005 MiB of each card for Pods.
const caseMiB = 16500

// What Kubernetes' users have seen go wrong, on one node with two cards.
func TestCases(t *testing.T) {
	t.Parallel()
	b := setup(t, 1, 2, same(caseMiB))
	b.inTurn([]part{
		{"values that are no plain number, or wrap one", nonsenseIsRefused},
		{"two fragments are not one", fragmentsAreNotOne},
		{"why it waits, and what wakes it", waitsAndIsWoken},
		{"deletions that the scheduler missed", missedDeletions},
		{"deleted while it was bound", deletedBeforeBinding},
	})
}

// counts waits until the scheduler counts what Pods on the API server add up to.
func (b *bundle) counts() {
	b.t.Helper()
	b.eventually(func(ctx context.Context) error {
		list, err := b.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		sum := newAccounts(1, 2, same(caseMiB))
		for i := range list.Items {
			sum.see(&list.Items[i], false)
		}
		if len(sum.wrong) > 0 {
			b.t.Fatal(sum.wrong)
		}
		text, err := b.metrics(ctx)
		if err != nil {
			return err
		}
		return equal(sum, text)
	})
}

// event waits until a Pod has an event of the scheduler that says this.
func (b *bundle) event(pod, says string) {
	b.t.Helper()
	b.eventually(func(ctx context.Context) error {
		list, err := b.client.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var notes []string
		for _, e := range list.Items {
			if e.Regarding.Name != pod || e.Reason != "FailedScheduling" {
				continue
			}
			if strings.Contains(e.Note, says) {
				return nil
			}
			notes = append(notes, e.Note)
		}
		return fmt.Errorf("no event FailedScheduling of %s says %q: %q", pod, says, notes)
	})
}

// Each of these Pods waits and is told why; none is bound, changes what a card
// has, or keeps the next one from its place; and the scheduler goes on.
func nonsenseIsRefused(b *bundle) {
	pid := b.scheduler.PID()
	text := func(value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations[placement.MemoryAnnotation] = value }
	}
	names := map[string]string{}
	for i, value := range []string{
		"-5", "0x10", "1.5", "8000Mi", "8Gi", " 8000", "8000 ", "+8000", "1e3", "", "八千",
		"9223372036854775807", "9223372036854775807", "9223372036854775808", "18446744073709551616",
		"17179869184", "4294967296", "4294967297", "2147483648", // of these 32 bits make little or nothing
	} {
		name := fmt.Sprint("bad-", i)
		b.create(name, 1, text(value))
		names[name] = value
	}
	b.place("good", 8000)
	for name, value := range names {
		want := fmt.Sprintf("%s: %q", placement.MemoryAnnotation, value)
		if len(value) >= len("2147483648") && len(value) < len("9223372036854775807") {
			want = fmt.Sprintf("largest fragment 16005 MiB < %s MiB on node gpu-0", value)
		}
		b.pending(name)
		b.event(name, want)
	}
	b.counts() // the good one alone
	b.place("full", room(caseMiB))
	for name, value := range names {
		if reason := b.pending(name); reason == "" {
			b.t.Errorf("%s (%q) is told nothing", name, value)
		}
	}
	if now := b.scheduler.PID(); now != pid || now == 0 {
		b.t.Errorf("the scheduler was process %d and is %d", pid, now)
	}
}

func fragmentsAreNotOne(b *bundle) {
	one, other := b.place("one", 10000), b.place("other", 10000)
	if one.Annotations[cardKey] == other.Annotations[cardKey] {
		b.t.Errorf("two of 10000 MiB are on %s", one.Annotations[cardKey])
	}
	b.create("large", 12000)
	if reason := b.pending("large"); !strings.Contains(reason, "largest fragment 6005 MiB < 12000 MiB on node gpu-0 (2 cards, 11.7 GiB free in total)") {
		b.t.Errorf("it waits because %q", reason)
	}
	small := b.place("small", 6000)
	if card := small.Annotations[cardKey]; card != "SIM-0-0" && card != "SIM-0-1" {
		b.t.Errorf("the small one has card %q", card)
	}
	b.pending("large")
	b.counts()
}

func waitsAndIsWoken(b *bundle) {
	const soon = 30 * time.Second
	b.place("stays", 6005)
	b.place("fills", 15000)
	b.place("goes", 2000) // 8000 are left beside it
	b.create("waits", 9000)
	b.pending("waits")
	b.event("waits", "largest fragment 8000 MiB < 9000 MiB on node gpu-0")

	// A node that does not answer takes nobody, and takes them when it is back.
	kwok, err := b.cluster.Component(cluster.Kwok)
	if err != nil {
		b.t.Fatal(err)
	}
	// It pauses: one that starts anew would wait for the leases of the one before.
	if err := syscall.Kill(kwok.PID(), syscall.SIGSTOP); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = syscall.Kill(kwok.PID(), syscall.SIGCONT) })
	b.notReady()
	b.create("small", 1000)
	if reason := b.pending("small"); !strings.Contains(reason, "untolerated taint") {
		b.t.Errorf("on a node that is not ready it waits because %q", reason)
	}
	if err := syscall.Kill(kwok.PID(), syscall.SIGCONT); err != nil {
		b.t.Fatal(err)
	}
	b.placed("small")

	began := time.Now()
	b.delete("goes")
	b.placed("waits")
	if took := time.Since(began); took > soon {
		b.t.Errorf("it was placed %s after its memory was free", took)
	}
	b.counts()
}

// notReady says of the node that it is not, and waits until it takes nobody.
func (b *bundle) notReady() {
	b.t.Helper()
	b.eventually(func(ctx context.Context) error {
		node, err := b.client.CoreV1().Nodes().Get(ctx, "gpu-0", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, t := range node.Spec.Taints {
			if t.Key == corev1.TaintNodeNotReady && t.Effect == corev1.TaintEffectNoSchedule {
				return nil
			}
		}
		for i, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady {
				node.Status.Conditions[i].Status = corev1.ConditionFalse
			}
		}
		if _, err = b.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
			return err
		}
		return errors.New("the node has no taint yet")
	})
}

// force deletes a Pod at once, as if its node were gone.
func (b *bundle) force(name string) {
	b.t.Helper()
	err := b.client.CoreV1().Pods(namespace).Delete(b.t.Context(), name, *metav1.NewDeleteOptions(0))
	if err != nil && !apierrors.IsNotFound(err) {
		b.t.Fatal(err)
	}
}

// Three Pods go while the scheduler hears nothing, two while there is none: what
// they had is given to others, and nothing has to be started anew for it.
func missedDeletions(b *bundle) {
	for i := range 5 {
		b.place(fmt.Sprint("five-", i), 5000)
	}
	b.proxy.cut()
	for i := range 3 {
		b.force(fmt.Sprint("five-", i))
	}
	b.proxy.open()
	b.counts()
	if err := b.scheduler.Kill(); err != nil {
		b.t.Fatal(err)
	}
	for i := range 5 {
		b.force(fmt.Sprint("five-", i))
	}
	if err := b.scheduler.Start(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	for i := range 2 {
		b.place(fmt.Sprint("full-", i), room(caseMiB))
	}
	b.counts()
}

// A Pod goes when its card is decided and its Binding has not arrived.
func deletedBeforeBinding(b *bundle) {
	b.place("keeper", room(caseMiB))
	came, let := b.proxy.hold("short")
	b.t.Cleanup(let)
	b.create("short", room(caseMiB))
	b.eventually(func(context.Context) error {
		if !came() {
			return errors.New("it is not bound")
		}
		return nil
	})
	b.create("next", room(caseMiB))
	b.pending("next") // the card is promised
	b.force("short")
	let()
	b.placed("next")
	b.counts()
}
