package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"modeldock.io/test/cluster"
)

// ticks is how the kernel counts the time of processes, per second.
const ticks = 100

// effort is the CPU time that each part has taken, in seconds.
type effort map[string]float64

// effort reads it from the kernel; what cannot be read is left out.
func (s *stage) effort() effort {
	pids := map[string]int{"mariadb": s.dock.Database.PID(), "bench": os.Getpid()}
	for _, name := range []string{cluster.Etcd, cluster.APIServer, cluster.ControllerManager, cluster.Scheduler, cluster.Kwok} {
		if component, err := s.cluster.Component(name); err == nil {
			pids[name] = component.PID()
		}
	}
	for _, p := range append(slices.Clone(s.dock.Controllers), s.dock.Gateways...) {
		pids[p.Name] = p.PID()
	}
	out := effort{}
	for name, pid := range pids {
		if seconds, err := cpu(pid); err == nil {
			out[name] = seconds
		}
	}
	return out
}

func cpu(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read a process's time: %w", err)
	}
	// The program's name, in brackets, may contain blanks.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const user, system = 11, 12
	if len(fields) <= system {
		return 0, fmt.Errorf("read the time of process %d: %q", pid, text)
	}
	u, err := strconv.ParseFloat(fields[user], 64)
	if err != nil {
		return 0, fmt.Errorf("read the time of process %d: %w", pid, err)
	}
	k, err := strconv.ParseFloat(fields[system], 64)
	return (u + k) / ticks, err
}

// since says what each part has taken, the largest first, and all together.
func (e effort) since(before effort) (text string, total float64) {
	took := effort{}
	for name, s := range e {
		took[name] = s - before[name]
		total += took[name]
	}
	var parts []string
	for _, name := range slices.SortedFunc(maps.Keys(took), func(a, b string) int { return int(1000 * (took[b] - took[a])) }) {
		parts = append(parts, fmt.Sprintf("%s %.1f", name, took[name]))
	}
	return strings.Join(parts, ", "), total
}
