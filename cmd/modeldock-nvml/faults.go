//go:build cgo

package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"modeldock.io/internal/device"
)

// faultEvents are what the driver is asked to report.
const faultEvents = nvml.EventTypeXidCriticalError | nvml.EventTypeDoubleBitEccError

// blameless are XIDs that a program causes on a card that is well: they end
// the program. The list is the one that NVIDIA's own device plugin goes by.
func blameless() []uint64 { return []uint64{13, 31, 43, 45, 68, 109} }

// faults are what the driver reported of cards since this process started. A
// card with such a fault is not used again before somebody has looked at it
// and started the reader anew.
type faults struct {
	set  nvml.EventSet // nil: this driver reports none
	seen map[string]string
}

func watchFaults(lib nvml.Interface) *faults {
	f := &faults{seen: map[string]string{}}
	set, ret := lib.EventSetCreate()
	if ret != nvml.SUCCESS {
		return f
	}
	count, _ := lib.DeviceGetCount()
	for i := range count {
		dev, ret := lib.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue
		}
		if known, ret := dev.GetSupportedEventTypes(); ret == nvml.SUCCESS && known&faultEvents != 0 && dev.RegisterEvents(known&faultEvents, set) == nvml.SUCCESS {
			f.set = set
		}
	}
	if f.set == nil {
		_ = set.Free() // it would never say anything
	}
	return f
}

// wait notes what is reported within this time.
func (f *faults) wait(limit time.Duration) {
	for end := time.Now().Add(limit); ; {
		left := time.Until(end)
		if left <= 0 {
			return
		}
		if f.set == nil {
			time.Sleep(left)
			return
		}
		event, ret := f.set.Wait(uint32(max(1, left.Milliseconds()))) //nolint:gosec // an interval fits
		switch ret {
		case nvml.SUCCESS:
			f.note(event)
		case nvml.ERROR_TIMEOUT:
		default: // a card that is lost shows in the inventory
			time.Sleep(time.Until(end))
		}
	}
}

func (f *faults) note(event nvml.EventData) {
	if event.Device == nil {
		return
	}
	uuid, ret := event.Device.GetUUID()
	if ret != nvml.SUCCESS {
		return
	}
	switch {
	case event.EventType == nvml.EventTypeDoubleBitEccError:
		f.seen[uuid] = "its memory had an error that could not be corrected; reset or replace it"
	case event.EventType == nvml.EventTypeXidCriticalError && !slices.Contains(blameless(), event.EventData):
		f.seen[uuid] = fmt.Sprintf("its driver reported XID %d; see NVIDIA's list of XIDs, reset or replace it, and start the agent anew", event.EventData)
	}
}

// mark makes cards unhealthy that had a fault.
func (f *faults) mark(cards []device.Card) {
	for i, c := range cards {
		if why, ill := f.seen[c.UUID]; ill && c.Healthy {
			cards[i] = unhealthy(c, why)
		}
	}
}
