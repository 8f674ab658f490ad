//go:build cluster

package placement

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"modeldock.io/internal/placement"
)

// place is one card.
type place struct{ node, card string }

// accounts are the memory of cards as Pods on the API server add up to, in
// arithmetic that shares nothing with the scheduler's.
type accounts struct {
	room  map[place]int64
	used  map[place]int64
	holds map[types.UID]holding
	wrong []string // what must never be
}

type holding struct {
	name, node string
	cards      []string
	mib        int64
}

// newAccounts has the given cards and no Pod: a card gives all but 3 % of its
// memory, and no less than 256 MiB are kept back.
func newAccounts(nodes, cards int, mib func(node, card int) int64) *accounts {
	a := &accounts{room: map[place]int64{}, used: map[place]int64{}, holds: map[types.UID]holding{}}
	for n := range nodes {
		for c := range cards {
			kept := (mib(n, c)*3 + 99) / 100
			if kept < 256 {
				kept = 256
			}
			a.room[place{nodePrefix + strconv.Itoa(n), fmt.Sprintf("SIM-%d-%d", n, c)}] = mib(n, c) - kept
		}
	}
	return a
}

// empty are accounts of the same cards without Pods.
func (a *accounts) empty() *accounts {
	return &accounts{room: a.room, used: map[place]int64{}, holds: map[types.UID]holding{}}
}

// see takes in what the API server shows of a Pod, or that it is gone.
func (a *accounts) see(p *corev1.Pod, gone bool) {
	before, had := a.holds[p.UID]
	for _, card := range before.cards {
		a.used[place{before.node, card}] -= before.mib
	}
	delete(a.holds, p.UID)
	if gone || p.Spec.NodeName == "" || finished(p) {
		return
	}
	h := holding{name: p.Name, node: p.Spec.NodeName, cards: strings.Split(p.Annotations[cardKey], ",")}
	mib, count, valid := asked(p)
	if !valid || count != len(h.cards) {
		a.object("%s asks for %v and is on %s with the cards %v", p.Name, p.Annotations, h.node, h.cards)
		return
	}
	if had && (h.node != before.node || !slices.Equal(h.cards, before.cards)) {
		a.object("%s went from %s %v to %s %v", p.Name, before.node, before.cards, h.node, h.cards)
	}
	h.mib = mib
	a.holds[p.UID] = h
	for i, card := range h.cards {
		at := place{h.node, card}
		if _, known := a.room[at]; !known || slices.Contains(h.cards[:i], card) {
			a.object("%s is on %s with the cards %v", p.Name, h.node, h.cards)
		}
		a.used[at] += mib
		if a.used[at] > a.room[at] {
			a.object("%s holds %d of %d MiB since %s got %d of it: %s", card, a.used[at], a.room[at], p.Name, mib, a.on(at))
		}
	}
}

func (a *accounts) object(format string, args ...any) {
	a.wrong = append(a.wrong, fmt.Sprintf(format, args...))
}

// on names the Pods of a card.
func (a *accounts) on(at place) string {
	var names []string
	for _, h := range a.holds {
		if h.node == at.node && slices.Contains(h.cards, at.card) {
			names = append(names, fmt.Sprintf("%s (%d MiB)", h.name, h.mib))
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// able counts the cards of each node that have this much left.
func (a *accounts) able(mib int64) map[string]int {
	able := map[string]int{}
	for at, room := range a.room {
		if room-a.used[at] >= mib {
			able[at.node]++
		}
	}
	return able
}

// fits names a node on which a request would fit, or none.
func (a *accounts) fits(mib int64, cards int) string {
	able := a.able(mib)
	for _, node := range slices.Sorted(maps.Keys(able)) {
		if able[node] >= cards {
			return node
		}
	}
	return ""
}

// largest is the most that one card still has.
func (a *accounts) largest() (mib int64) {
	for at, room := range a.room {
		mib = max(mib, room-a.used[at])
	}
	return mib
}

// total is the sum of all cards.
func (a *accounts) total() (used, room int64) {
	for at, mib := range a.room {
		used, room = used+a.used[at], room+mib
	}
	return used, room
}

var number = regexp.MustCompile(`^[1-9][0-9]{0,8}$`)

// asked reads what a Pod asks for.
func asked(p *corev1.Pod) (mib int64, cards int, valid bool) {
	memory, count := p.Annotations[placement.MemoryAnnotation], p.Annotations[placement.CountAnnotation]
	if count == "" {
		count = "1"
	}
	if !number.MatchString(memory) || !number.MatchString(count) {
		return 0, 0, false
	}
	mib, err := strconv.ParseInt(memory, 10, 64)
	if err != nil {
		return 0, 0, false
	}
	cards, err = strconv.Atoi(count)
	return mib, cards, err == nil
}

func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// waits tells whether a Pod is to be placed still.
func waits(p *corev1.Pod) bool {
	return p.Spec.NodeName == "" && !finished(p) && p.DeletionTimestamp == nil
}
