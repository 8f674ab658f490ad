package deviceplugin

import (
	"fmt"
	"slices"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"modeldock.io/internal/device"
	"modeldock.io/internal/placement"
)

// slots are the chunks of memory that the kubelet counts. A slot is a part of
// a card's size, not a place on it: which card a Pod gets is decided by the
// scheduler, and the kubelet picks slots without knowing. A sick card takes as
// many slots out as it has.
func slots(cards []device.Card, chunkMiB int64, reserve placement.Reserve) []*pluginapi.Device {
	var out []*pluginapi.Device
	for _, c := range cards {
		health := pluginapi.Healthy
		if !c.Healthy {
			health = pluginapi.Unhealthy
		}
		usable := max(0, c.Total-reserve.Of(c.Total))
		for i := range usable / chunkMiB {
			out = append(out, &pluginapi.Device{ID: fmt.Sprintf("%d-%d", c.Index, i), Health: health})
		}
	}
	return out
}

// preferred takes slots in the order of their names, so that the same question
// always has the same answer.
func preferred(r *pluginapi.ContainerPreferredAllocationRequest) []string {
	chosen := slices.Clone(r.GetMustIncludeDeviceIDs())
	available := slices.Sorted(slices.Values(r.GetAvailableDeviceIDs()))
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
