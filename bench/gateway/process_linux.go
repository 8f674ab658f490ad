package main

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is the user and system time of a process, all its threads included,
// from its CPU clock: the id of that clock is made of the process id as
// clock_getcpuclockid(3) does it.
func cpuTime(pid int) (time.Duration, error) {
	const perProcessScheduled = 2
	var t unix.Timespec
	if err := unix.ClockGettime(^int32(pid)<<3|perProcessScheduled, &t); err != nil {
		return 0, fmt.Errorf("read the CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// pin keeps a process (0: this one) on one core, if there are at least two. It
// is a favour to the measurement, not a condition: errors do not matter.
func pin(pid, core int) {
	if runtime.NumCPU() < 2 {
		return
	}
	var set unix.CPUSet
	set.Set(core)
	_ = unix.SchedSetaffinity(pid, &set)
}
