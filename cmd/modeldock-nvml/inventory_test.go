//go:build cgo

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"

	"modeldock.io/internal/device"
)

// machine is NVIDIA's own mock of a DGX A100, with what it leaves open.
func machine(t *testing.T) (*server.Server, []*server.Device) {
	t.Helper()
	s := dgxa100.New()
	var devices []*server.Device
	for i := range 8 {
		handle, ret := s.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			t.Fatal(nvml.ErrorString(ret))
		}
		d, ok := handle.(*server.Device)
		if !ok {
			t.Fatalf("handle is a %T", handle)
		}
		d.GetSupportedEventTypesFunc = func() (uint64, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
		d.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 0, 0, false, false, nvml.ERROR_NOT_SUPPORTED }
		devices = append(devices, d)
	}
	s.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) { return nil, nvml.ERROR_NOT_SUPPORTED }
	return s, devices
}

func TestInventoryOfADGX(t *testing.T) {
	t.Parallel()
	s, devices := machine(t)
	devices[0].GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) {
		return nvml.Memory{Total: 40960<<20 + 5, Used: 1<<20 + 1}, nvml.SUCCESS
	}
	cards, err := inventory(s)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i, c := range cards {
		if c.Index != i || !strings.HasPrefix(c.UUID, "GPU-") || seen[c.UUID] || !strings.Contains(c.Model, "A100") || c.Total < 40000 || !c.Healthy {
			t.Errorf("card %d is %+v", i, c)
		}
		seen[c.UUID] = true
	}
	if len(cards) != 8 || cards[0].Total != 40960 || cards[0].Used != 2 {
		t.Fatalf("%d cards, the first %+v", len(cards), cards[0])
	}
}

func TestUnhealthyCardsAreListedWithTheReason(t *testing.T) {
	t.Parallel()
	s, devices := machine(t)
	devices[1].GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{}, nvml.ERROR_GPU_IS_LOST }
	devices[2].GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 0, 1, false, true, nvml.SUCCESS }
	devices[3].GetMigModeFunc = func() (int, int, nvml.Return) {
		return nvml.DEVICE_MIG_ENABLE, nvml.DEVICE_MIG_ENABLE, nvml.SUCCESS
	}
	cards, err := inventory(s)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range cards {
		if sick := i >= 1 && i <= 3; c.Healthy == sick || (c.Reason != "") != sick {
			t.Errorf("card %d is %+v", i, c)
		}
	}
}

func TestALostCardIsNoLossForTheOthers(t *testing.T) {
	t.Parallel()
	s, devices := machine(t)
	devices[4].GetUUIDFunc = func() (string, nvml.Return) { return "", nvml.ERROR_GPU_IS_LOST }
	cards, err := inventory(s)
	if err != nil || len(cards) != 7 {
		t.Fatalf("%d cards (%v)", len(cards), err)
	}
	for _, d := range devices {
		d.GetUUIDFunc = devices[4].GetUUIDFunc
	}
	if cards, err := inventory(s); err == nil {
		t.Errorf("all are lost, and there are %+v", cards)
	}
}

// TestFaultsThatTheDriverReports waits for events as the driver gives them: one
// that a program caused, and one that is the card's.
func TestFaultsThatTheDriverReports(t *testing.T) {
	t.Parallel()
	s, devices := machine(t)
	events := make(chan nvml.EventData, 3)
	set := &mock.EventSet{
		WaitFunc: func(ms uint32) (nvml.EventData, nvml.Return) {
			select {
			case e := <-events:
				return e, nvml.SUCCESS
			case <-time.After(time.Duration(ms) * time.Millisecond):
				return nvml.EventData{}, nvml.ERROR_TIMEOUT
			}
		},
	}
	s.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) { return set, nvml.SUCCESS }
	for _, d := range devices {
		d.GetSupportedEventTypesFunc = func() (uint64, nvml.Return) { return nvml.EventTypeXidCriticalError, nvml.SUCCESS }
		d.RegisterEventsFunc = func(types uint64, _ nvml.EventSet) nvml.Return {
			if types != nvml.EventTypeXidCriticalError {
				return nvml.ERROR_INVALID_ARGUMENT
			}
			return nvml.SUCCESS
		}
	}
	f := watchFaults(s)
	events <- nvml.EventData{Device: devices[1], EventType: nvml.EventTypeXidCriticalError, EventData: 31}
	events <- nvml.EventData{Device: devices[2], EventType: nvml.EventTypeXidCriticalError, EventData: 79}
	for deadline := time.Now().Add(45 * time.Second); len(f.seen) == 0 && time.Now().Before(deadline); {
		f.wait(5 * time.Millisecond)
	}
	cards, err := inventory(s)
	if err != nil {
		t.Fatal(err)
	}
	f.mark(cards)
	for i, c := range cards {
		if sick := i == 2; c.Healthy == sick || strings.Contains(c.Reason, "XID 79") != sick {
			t.Errorf("card %d is %+v", i, c)
		}
	}
}

func TestNoDriver(t *testing.T) {
	t.Parallel()
	s, _ := machine(t)
	s.InitFunc = func() nvml.Return { return nvml.ERROR_LIBRARY_NOT_FOUND }
	var out bytes.Buffer
	if err := show(s, 0, nil, &out); err == nil || out.Len() > 0 {
		t.Fatalf("without a library it printed %q (%v)", out.String(), err)
	}
}

// TestFollowing reads lines until the reader's own input ends; a card that
// falls ill meanwhile shows in a later one.
func TestFollowing(t *testing.T) {
	t.Parallel()
	s, devices := machine(t)
	var lost atomic.Bool
	devices[2].GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) {
		if lost.Load() {
			return nvml.Memory{}, nvml.ERROR_GPU_IS_LOST
		}
		return nvml.Memory{Total: 1 << 30}, nvml.SUCCESS
	}
	alive, life := io.Pipe()
	lines, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- show(s, time.Millisecond, alive, out) }()
	dec := json.NewDecoder(lines)
	for sick := false; !sick; {
		var cards []device.Card
		if err := dec.Decode(&cards); err != nil || len(cards) != 8 {
			t.Fatalf("%d cards (%v)", len(cards), err)
		}
		sick = !cards[2].Healthy
		lost.Store(true)
	}
	if err := life.Close(); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
