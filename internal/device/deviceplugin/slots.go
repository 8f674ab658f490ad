package deviceplugin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"modeldock.io/internal/device"
	"modeldock.io/internal/placement"
)

// preferred takes slots in the order of their names, so that the same question
// always has the same answer; those that would be refused come last.
func preferred(r *pluginapi.ContainerPreferredAllocationRequest, open map[string]bool) []string {
	chosen := slices.Clone(r.GetMustIncludeDeviceIDs())
	available := slices.SortedFunc(slices.Values(r.GetAvailableDeviceIDs()), func(a, b string) int {
		if open[a] != open[b] {
			if open[a] {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	for _, id := range available {
		if len(chosen) >= int(r.GetAllocationSize()) {
			break
		}
		if !slices.Contains(chosen, id) {
			chosen = append(chosen, id)
		}
	}
	return chosen
}

// names are a node's chunks: those of healthy cards first. A chunk is a part of
// a card's size, not a place on it: which card a Pod gets is decided by the
// scheduler, and the kubelet picks chunks without knowing.
func names(cards []device.Card, chunkMiB int64, reserve placement.Reserve) (all []string, room int, sick bool) {
	for _, healthy := range []bool{true, false} {
		for _, c := range cards {
			if c.Healthy != healthy {
				continue
			}
			n := max(0, c.Total-reserve.Of(c.Total)) / chunkMiB
			for i := range n {
				all = append(all, fmt.Sprintf("%d-%d", c.Index, i))
			}
			if healthy {
				room += int(n)
			} else {
				sick = true
			}
		}
	}
	return all, room, sick
}

// division says which chunks the kubelet counts, and which of them it may give.
type division struct {
	devices []*pluginapi.Device
	open    map[string]bool
	room    int  // what healthy cards have
	taken   int  // what Pods have of that
	sick    bool // some card is
}

// divide tells the kubelet of as many chunks as healthy cards have, and of those
// besides that Pods still hold on cards that are sick or gone: Kubernetes counts
// them among what is asked of the node, so that without them these Pods would
// take the room of healthy cards. Whoever the chunks belonged to, none that a
// Pod holds is taken away. given are chunks of which who holds them is not read
// yet; they count on healthy cards, as does a Pod whose card is not known.
//
// What a Pod leaves on a sick card is closed before the kubelet hears of it: it
// may give open chunks only, and of these there are never more than room while
// Pods hold no more than that.
func divide(cards []device.Card, holders []holder, read bool, given map[string]bool, chunkMiB int64, reserve placement.Reserve) division {
	all, room, sick := names(cards, chunkMiB, reserve)
	taken, lost := maps.Clone(given), map[string]bool{}
	if taken == nil {
		taken = map[string]bool{}
	}
	for i := range holders {
		without := holders[i].lost(cards)
		for at, id := range holders[i].ids {
			if at >= without {
				taken[id] = true
			}
		}
	}
	for i := range holders {
		for _, id := range holders[i].ids[:holders[i].lost(cards)] {
			if !taken[id] {
				lost[id] = true
			}
		}
	}
	free := slices.DeleteFunc(all, func(id string) bool { return taken[id] || lost[id] })
	d := division{open: map[string]bool{}, room: room, taken: len(taken), sick: sick}
	left := max(0, room-len(taken))
	blind := sick && !read // any chunk may be one that a Pod holds
	if blind {
		left = 0
	}
	// Pods on lost cards may hold chunks that were those of healthy ones.
	for i := 0; len(free) < left; i++ {
		if id := fmt.Sprintf("more-%d", i); !taken[id] && !lost[id] {
			free = append(free, id)
		}
	}
	for _, id := range free[:left] {
		d.open[id] = true
	}
	if len(taken) <= room && !blind { // what a Pod of a healthy card leaves is given again
		maps.Copy(d.open, taken)
	}
	healthy := slices.Concat(slices.Collect(maps.Keys(taken)), slices.Collect(maps.Keys(lost)), free[:left])
	d.devices = append(list(healthy, pluginapi.Healthy), list(free[left:], pluginapi.Unhealthy)...)
	return d
}

func list(ids []string, health string) []*pluginapi.Device {
	slices.Sort(ids)
	out := make([]*pluginapi.Device, 0, len(ids))
	for _, id := range ids {
		out = append(out, &pluginapi.Device{ID: id, Health: health})
	}
	return out
}

// tells reports whether two divisions tell the kubelet the same.
func (d division) tells(other division) bool {
	return slices.EqualFunc(d.devices, other.devices, func(a, b *pluginapi.Device) bool { return a.GetID() == b.GetID() && a.GetHealth() == b.GetHealth() })
}
