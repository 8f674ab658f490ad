//go:build cgo

package main

import (
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"modeldock.io/internal/device"
)

// inventory reads every card with a library that is loaded. A card whose
// memory cannot be read or used as a whole is listed as unhealthy with the
// reason, so that people see it. One that does not even tell who it is, as
// after it fell off the bus, is left out: the others go on.
func inventory(lib nvml.Interface) ([]device.Card, error) {
	count, ret := lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("count the cards: %s", nvml.ErrorString(ret))
	}
	cards := make([]device.Card, 0, count)
	var unknown error
	for i := range count {
		c, err := card(lib, i)
		if err != nil {
			unknown = errors.Join(unknown, fmt.Errorf("read card %d: %w", i, err))
			continue
		}
		cards = append(cards, c)
	}
	if len(cards) == 0 {
		return nil, unknown // nil where there is no card at all
	}
	return cards, nil
}

func card(lib nvml.Interface, index int) (device.Card, error) {
	c := device.Card{Index: index, Healthy: true}
	dev, ret := lib.DeviceGetHandleByIndex(index)
	if ret != nvml.SUCCESS {
		return c, fmt.Errorf("get its handle: %s", nvml.ErrorString(ret))
	}
	if c.UUID, ret = dev.GetUUID(); ret != nvml.SUCCESS {
		return c, fmt.Errorf("get its uuid: %s", nvml.ErrorString(ret))
	}
	if c.Model, ret = dev.GetName(); ret != nvml.SUCCESS {
		return c, fmt.Errorf("get its name: %s", nvml.ErrorString(ret))
	}
	memory, ret := dev.GetMemoryInfo()
	if ret != nvml.SUCCESS {
		return unhealthy(c, "its memory cannot be read: "+nvml.ErrorString(ret)), nil
	}
	// Total rounds down and used rounds up: never promise what is not there.
	c.Total = int64(memory.Total >> 20)
	c.Used = int64((memory.Used + 1<<20 - 1) >> 20)
	if current, _, ret := dev.GetMigMode(); ret == nvml.SUCCESS && current == nvml.DEVICE_MIG_ENABLE {
		return unhealthy(c, "it is split by MIG, which is not supported on one machine"), nil
	}
	// Cards without row remapping answer NOT_SUPPORTED, which says nothing.
	if _, _, _, failed, ret := dev.GetRemappedRows(); ret == nvml.SUCCESS && failed {
		return unhealthy(c, "a failed memory row could not be remapped: the card must be replaced"), nil
	}
	return c, nil
}

func unhealthy(c device.Card, why string) device.Card {
	c.Healthy, c.Reason = false, why
	return c
}
