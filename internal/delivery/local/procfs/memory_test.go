package procfs

import (
	"testing"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	m, err := parseMemory("MemTotal:       65842172 kB\nMemFree:  1 kB\nMemAvailable:   2097152 kB\n")
	if err != nil || m != (Memory{TotalMiB: 64298, AvailableMiB: 2048}) {
		t.Errorf("%+v %v", m, err)
	}
	for _, bad := range []string{"", "MemTotal: much kB\n", "MemAvailable: 1 kB\n"} {
		if m, err := parseMemory(bad); err == nil {
			t.Errorf("%q is %+v", bad, m)
		}
	}
	if m, err := ReadMemory(); err != nil || m.TotalMiB <= 0 || m.AvailableMiB > m.TotalMiB {
		t.Errorf("this machine: %+v %v", m, err)
	}
}
