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
		d.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 0, 0, false, false, nvml.ERROR_NOT_SUPPORTED }
		devices = append(devices, d)
	}
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
