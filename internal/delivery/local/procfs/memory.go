package procfs

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Memory is the machine's, in MiB.
type Memory struct {
	TotalMiB     int64
	AvailableMiB int64 // for new work, without swapping
}

// ReadMemory reads what the machine has and what is left of it.
func ReadMemory() (Memory, error) {
	raw, err := os.ReadFile(root + "/meminfo")
	if err != nil {
		return Memory{}, fmt.Errorf("read the machine's memory: %w", err)
	}
	return parseMemory(string(raw))
}

func parseMemory(text string) (m Memory, err error) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "MemTotal:" && f[0] != "MemAvailable:" {
			continue
		}
		kib, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			return Memory{}, fmt.Errorf("read the machine's memory: %q: %w", strings.TrimSpace(line), err)
		}
		if f[0] == "MemTotal:" {
			m.TotalMiB = kib / 1024
		} else {
			m.AvailableMiB = kib / 1024
		}
	}
	if m.TotalMiB == 0 {
		return Memory{}, fmt.Errorf("read the machine's memory: %s/meminfo does not tell MemTotal", root)
	}
	return m, nil
}
