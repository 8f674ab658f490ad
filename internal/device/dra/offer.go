package dra

import (
	"cmp"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"modeldock.io/internal/device"
	"modeldock.io/internal/placement"
)

// Driver is the driver's name, and by convention that of its DeviceClass.
const Driver = "gpu.modeldock.io"

// memory is the capacity that claims share.
const memory resourceapi.QualifiedName = "memory"

// taintUnhealthy keeps new claims off a sick card.
const taintUnhealthy = "modeldock.io/unhealthy"

const (
	mebibyte = 1 << 20
	// perSlice is how many devices with taints one slice may have.
	perSlice      = 64
	maxAttribute  = 64
	attributeUUID = "uuid"
)

// deviceName is a card's name in the slice. It comes from the uuid: an index
// may be another card's after a repair, when claims still name the old one.
func deviceName(uuid string) string { return strings.ToLower(uuid) }

// usable is what claims can have of a card.
func usable(c device.Card, reserve placement.Reserve) int64 {
	return max(0, c.Total-reserve.Of(c.Total))
}

// offer describes the cards of one node. The allocator takes the first that
// fits, in this order: small cards first, so that large ones stay whole for
// those who need them.
func offer(node string, cards []device.Card, reserve placement.Reserve) resourceslice.DriverResources {
	ordered := slices.Clone(cards)
	slices.SortStableFunc(ordered, func(a, b device.Card) int {
		return cmp.Or(cmp.Compare(a.Total, b.Total), cmp.Compare(a.Index, b.Index))
	})
	var devices []resourceapi.Device
	for _, c := range ordered {
		if usable(c, reserve) > 0 {
			devices = append(devices, deviceOf(c, reserve))
		}
	}
	pool := resourceslice.Pool{Slices: []resourceslice.Slice{{}}} // an empty one says that the driver is there
	for i, chunk := range slices.Collect(slices.Chunk(devices, perSlice)) {
		if i == 0 {
			pool.Slices = nil
		}
		pool.Slices = append(pool.Slices, resourceslice.Slice{Devices: chunk})
	}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{node: pool}}
}

func deviceOf(c device.Card, reserve placement.Reserve) resourceapi.Device {
	text := func(s string) resourceapi.DeviceAttribute {
		s = s[:min(len(s), maxAttribute)]
		return resourceapi.DeviceAttribute{StringValue: &s}
	}
	all := resource.NewQuantity(usable(c, reserve)*mebibyte, resource.BinarySI)
	d := resourceapi.Device{
		Name:                     deviceName(c.UUID),
		AllowMultipleAllocations: new(true),
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			attributeUUID: text(c.UUID), "model": text(c.Model), "isolation": text(device.IsolationNone),
			"index": {IntValue: new(int64(c.Index))}, "simulated": {BoolValue: new(c.Simulated)},
		},
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{memory: {
			Value: *all,
			// A claim that does not say how much it needs gets a card alone.
			RequestPolicy: &resourceapi.CapacityRequestPolicy{
				Default:    all,
				ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: resource.NewQuantity(mebibyte, resource.BinarySI), Step: resource.NewQuantity(mebibyte, resource.BinarySI)},
			},
		}},
	}
	if !c.Healthy {
		d.Taints = []resourceapi.DeviceTaint{{Key: taintUnhealthy, Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	}
	return d
}
