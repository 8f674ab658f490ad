package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"pgregory.net/rapid"

	"modeldock.io/internal/device"
)

// tenant is a Pod of the model below.
type tenant struct {
	cards   []string // none: it went past the scheduler
	needs   int      // chunks, as many of each card
	ids     []string // once the kubelet has taken it
	started bool     // the API server shows that
}

// world is one node in a model: its cards, Pods, and a kubelet that hears of
// things when it pleases. It gives chunks as the real one does: any that it was
// told to be healthy and that no Pod of its own holds.
type world struct {
	t     *rapid.T
	p     *Plugin
	now   time.Time
	cards []device.Card
	pods  map[int]*tenant
	next  int
	told  []*pluginapi.Device
	asked *answer // under way
	gone  bool    // some card is

}

// answer is what the kubelet said when it was asked.
type answer struct {
	holders []holder
	began   time.Time
}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, now: time.Unix(1e9, 0), pods: map[int]*tenant{}}
	for i := range rapid.IntRange(1, 4).Draw(t, "cards") {
		total := rapid.SampledFrom([]int64{700, 2048, 3000}).Draw(t, "MiB") // 1, 7 and 10 chunks
		w.cards = append(w.cards, device.Card{UUID: fmt.Sprint("card-", i), Index: i, Total: total, Healthy: true})
	}
	w.restart()
	return w
}

// restart makes a plugin that knows nothing, as an agent's start does.
func (w *world) restart() {
	cfg := configOf("", fake.NewClientset())
	cfg.Clock = func() time.Time { return w.now }
	p, err := New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.p, w.told, w.asked = p, nil, nil
	p.Set(slices.Clone(w.cards))
	// It asks before it says anything, and may get no answer.
	if w.gone || rapid.Bool().Draw(w.t, "answered") {
		w.ask()
		w.answer()
	} else {
		p.answered(nil, errors.New("the kubelet is away"), w.now)
	}
}

func (w *world) card(uuid string) *device.Card {
	for i := range w.cards {
		if w.cards[i].UUID == uuid {
			return &w.cards[i]
		}
	}
	return nil
}

func chunksOf(c device.Card) int {
	_, room, _ := names([]device.Card{{Index: c.Index, Total: c.Total, Healthy: true}}, DefaultChunkMiB, configOf("", nil).Reserve)
	return room
}

// room is what healthy cards have, and used what Pods have of it: all that is
// not on a card that is sick or gone.
func (w *world) room() (room, used int) {
	for _, c := range w.cards {
		if c.Healthy {
			room += chunksOf(c)
		}
	}
	for _, p := range w.pods {
		if p.ids == nil {
			continue
		}
		used += p.needs
		for _, uuid := range p.cards {
			if c := w.card(uuid); c == nil || !c.Healthy {
				used -= p.needs / len(p.cards)
			}
		}
	}
	return room, used
}

// free is what the scheduler has left on a card.
func (w *world) free(c device.Card) int {
	n := chunksOf(c)
	for _, p := range w.pods {
		if slices.Contains(p.cards, c.UUID) {
			n -= p.needs / len(p.cards)
		}
	}
	return n
}

// bind lets the scheduler place a Pod on healthy cards, or somebody else one on
// the node.
func (w *world) bind(past bool) (name int, bound bool) {
	p := &tenant{}
	if past {
		p.needs = rapid.IntRange(1, 12).Draw(w.t, "chunks")
	} else {
		each := rapid.IntRange(1, 6).Draw(w.t, "chunks of each")
		want := rapid.IntRange(1, 2).Draw(w.t, "of cards")
		for _, c := range rapid.Permutation(slices.Clone(w.cards)).Draw(w.t, "order") {
			if c.Healthy && w.free(c) >= each && len(p.cards) < want {
				p.cards = append(p.cards, c.UUID)
			}
		}
		if len(p.cards) < want {
			return 0, false
		}
		p.needs = each * want
	}
	w.next++
	w.pods[w.next] = p
	return w.next, true
}

// admit is the kubelet's turn: it has room, asks which chunks are preferred, and
// asks to allocate them. What must never be is that healthy cards hold more than
// they have, unless they did before.
func (w *world) admit(name int) bool {
	p := w.pods[name]
	free := map[string]bool{}
	for _, d := range w.told {
		if d.GetHealth() == pluginapi.Healthy {
			free[d.GetID()] = true
		}
	}
	for _, other := range w.pods {
		for _, id := range other.ids {
			delete(free, id)
		}
	}
	if len(free) < p.needs {
		return false
	}
	ask := &pluginapi.PreferredAllocationRequest{ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{{AvailableDeviceIDs: slices.Sorted(maps.Keys(free)), AllocationSize: int32(p.needs)}}}
	wish, err := w.p.GetPreferredAllocation(context.Background(), ask)
	if err != nil {
		w.t.Fatal(err)
	}
	ids := wish.GetContainerResponses()[0].GetDeviceIDs()
	if len(ids) != p.needs {
		w.t.Fatalf("%d chunks are preferred of %d", len(ids), p.needs)
	}
	if _, err := w.p.Allocate(context.Background(), &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: ids}}}); err != nil {
		return false
	}
	p.ids = slices.Sorted(slices.Values(ids))
	if room, used := w.room(); used > room {
		w.t.Fatalf("with Pod %d of %d chunks on %v healthy cards hold %d of %d chunks", name, p.needs, p.cards, used, room)
	}
	return true
}

func (w *world) one(of func(*tenant) bool) (name int, there bool) {
	var names []int
	for name, p := range w.pods {
		if of(p) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return 0, false
	}
	slices.Sort(names)
	return rapid.SampledFrom(names).Draw(w.t, "Pod"), true
}

// ask lets the kubelet answer now what the plugin hears later.
func (w *world) ask() {
	a := &answer{began: w.now}
	for name, p := range w.pods {
		if p.ids != nil {
			h := holder{ids: slices.Clone(p.ids)}
			h.pod.Name = fmt.Sprint(name)
			if p.started {
				h.cards = slices.Clone(p.cards)
			}
			a.holders = append(a.holders, h)
		}
	}
	w.asked = a
}

func (w *world) answer() {
	if w.asked != nil {
		w.p.answered(w.asked.holders, nil, w.asked.began)
		w.asked = nil
	}
}

func (w *world) deliver() { w.told, _ = w.p.current() }

// settle lets everybody know everything.
func (w *world) settle() {
	w.now = w.now.Add(2 * shownAfter)
	for _, p := range w.pods {
		p.started = p.ids != nil
	}
	w.ask()
	w.answer()
	w.deliver()
}

// exact checks that the kubelet and the scheduler have exactly the room of the
// healthy cards for others.
func (w *world) exact() {
	held, healthy := map[string]bool{}, 0
	for _, p := range w.pods {
		for _, id := range p.ids {
			if held[id] {
				w.t.Fatalf("chunk %s is held twice", id)
			}
			held[id] = true
		}
	}
	seen := map[string]bool{}
	for _, d := range w.told {
		if seen[d.GetID()] {
			w.t.Fatalf("chunk %s is told twice", d.GetID())
		}
		seen[d.GetID()] = true
		if d.GetHealth() == pluginapi.Healthy {
			healthy++
		} else if held[d.GetID()] {
			w.t.Fatalf("chunk %s is taken away from the Pod that holds it", d.GetID())
		}
	}
	room, used := w.room()
	if left := healthy - len(held); left != max(0, room-used) {
		w.t.Fatalf("%d chunks are left on the node, and the healthy cards have %d of %d", left, room-used, room)
	}
}

// Whatever happens, and whoever hears of it when: the kubelet never gives more
// than healthy cards have, and once everybody knows, it gives all of that.
func TestRandomSequences(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		steps := map[string]func(){
			"bind": func() { w.bind(false) },
			"past": func() { w.bind(true) },
			"admit": func() {
				if name, there := w.one(func(p *tenant) bool { return p.ids == nil }); there && !w.admit(name) {
					delete(w.pods, name) // it has failed, and is made anew elsewhere
				}
			},
			"start": func() {
				if name, there := w.one(func(p *tenant) bool { return p.ids != nil && !p.started }); there {
					w.pods[name].started = true
				}
			},
			"end": func() {
				if name, there := w.one(func(*tenant) bool { return true }); there {
					delete(w.pods, name)
				}
			},
			"health": func() {
				i := rapid.IntRange(0, len(w.cards)-1).Draw(t, "card")
				w.cards[i].Healthy = !w.cards[i].Healthy
				w.p.Set(slices.Clone(w.cards))
			},
			"ask":     w.ask,
			"answer":  w.answer,
			"deliver": w.deliver,
			"later":   func() { w.now = w.now.Add(time.Second) },
			"kubelet": func() { w.told = nil }, // it starts anew
			"agent": func() {
				if n := len(w.cards); n > 1 && !w.cards[n-1].Healthy && rapid.Bool().Draw(t, "gone") {
					w.cards, w.gone = w.cards[:n-1], true // who starts anew knows nothing of it
				}
				w.restart()
			},
			"settle": func() {
				w.settle()
				w.exact()
				// And a Pod for which a healthy card has room is taken.
				room, used := w.room()
				if name, bound := w.bind(false); bound && used+w.pods[name].needs <= room && !w.admit(name) {
					t.Fatalf("the kubelet refuses Pod %d of %d chunks on %v, and healthy cards hold %d of %d", name, w.pods[name].needs, w.pods[name].cards, used, room)
				}
			},
		}
		order := slices.Sorted(maps.Keys(steps))
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			w.now = w.now.Add(time.Millisecond)
			steps[rapid.SampledFrom(order).Draw(t, "step")]()
		}
		w.settle()
		w.exact()
	})
}
