//go:build cluster

package placement

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/placement"
)

// room is what a card has for Pods.
func room(mib int64) int64 { return mib - placement.DefaultReserve().Of(mib) }

// Pods land as each card's memory allows; one that fits no card waits although
// the node has enough in total, says why, and is placed when a card is free.
func TestPlacementByCard(t *testing.T) {
	t.Parallel()
	b := setup(t, 1, 2, same(cardMiB))
	sizes := map[string]int64{"a": 10000, "b": 10000, "c": 12000}
	cards := map[string][]string{}
	for _, name := range []string{"a", "b", "c"} {
		b.create(name, sizes[name])
		p := b.placed(name)
		cards[p.Annotations[cardKey]] = append(cards[p.Annotations[cardKey]], name)
		if want := strings.TrimPrefix(p.Annotations[cardKey], "SIM-0-"); p.Annotations["scheduler.ai/gpu-index"] != want {
			t.Errorf("%s has card %s under the index %s", name, p.Annotations[cardKey], p.Annotations["scheduler.ai/gpu-index"])
		}
	}
	used := b.used()
	var largest, total int64
	for _, card := range []string{"SIM-0-0", "SIM-0-1"} {
		free := room(cardMiB) - used[card]
		if free < 0 {
			t.Errorf("card %s holds %d of %d MiB", card, used[card], room(cardMiB))
		}
		largest, total = max(largest, free), total+free
	}
	fourth := largest + 500
	if fourth > total || len(cards) != 2 {
		t.Fatalf("cards %v: the fourth of %d MiB proves nothing with %d free in total", cards, fourth, total)
	}
	b.create("d", fourth)
	if reason, want := b.pending("d"), fmt.Sprintf("largest fragment %d MiB < %d MiB on node gpu-0 (2 cards, ", largest, fourth); !strings.Contains(reason, want) {
		t.Errorf("the fourth waits because %q, want …%q…", reason, want)
	}
	for _, on := range cards {
		if len(on) == 1 {
			b.delete(on[0]) // a card is empty then
		}
	}
	b.placed("d")
	for card, mib := range b.used() {
		if mib > room(cardMiB) {
			t.Errorf("card %s holds %d of %d MiB", card, mib, room(cardMiB))
		}
	}
	b.placesSoon("d", fourth)
}

// placesSoon tells whether a Pod that waits is placed within 2 s of the deletion
// of the one that has its room: once in three times, as others may have the machine.
func (b *bundle) placesSoon(holder string, mib int64) {
	b.t.Helper()
	const soon = 2 * time.Second
	var took []time.Duration
	for i := range 3 {
		next := fmt.Sprintf("%s-%d", holder, i)
		b.create(next, mib)
		b.pending(next)
		began := time.Now()
		b.delete(holder)
		b.placed(next)
		took = append(took, time.Since(began))
		if took[i] < soon {
			return
		}
		holder = next
	}
	b.t.Errorf("after a deletion it took %v until another Pod was placed; want less than %s", took, soon)
}

// A scheduler that was killed knows again what is taken before it places.
func TestRestart(t *testing.T) {
	t.Parallel()
	b := setup(t, 1, 1, same(cardMiB))
	b.create("a", 15000)
	b.placed("a")
	if err := b.scheduler.Kill(); err != nil {
		t.Fatal(err)
	}
	b.create("large", 9000)
	b.create("small", 8000)
	if err := b.scheduler.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.placed("small")
	if reason := b.pending("large"); !strings.Contains(reason, "MiB < 9000 MiB on node gpu-0") {
		t.Errorf("the large one waits because %q", reason)
	}
	b.delete("a")
	b.placed("large")
}

// A Binding that took effect although its answer was lost stays counted: when
// the scheduler can ask, and when it must wait for its watch.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	b := setup(t, 1, 1, same(cardMiB))
	for _, blind := range []bool{false, true} {
		first, second := fmt.Sprintf("first-%t", blind), fmt.Sprintf("second-%t", blind)
		b.proxy.loseBinding(first, blind)
		b.create(first, 15000)
		bound := b.placed(first)
		if b.proxy.swallowed() == 0 {
			t.Error("no answer was lost")
		}
		b.create(second, 15000)
		if reason := b.pending(second); !strings.Contains(reason, "largest fragment") {
			t.Errorf("the second waits because %q", reason)
		}
		b.proxy.loseBinding("", false)
		if again := b.placed(first); again.UID != bound.UID || again.Annotations[cardKey] != bound.Annotations[cardKey] {
			t.Errorf("bound to %s, then to %s", bound.Annotations[cardKey], again.Annotations[cardKey])
		}
		b.delete(first)
		b.placed(second) // the lost answer has left nothing behind
		b.delete(second)
		b.eventually(func(context.Context) error {
			if used := b.used(); len(used) != 0 {
				return fmt.Errorf("cards still hold %v", used)
			}
			return nil
		})
	}
}
