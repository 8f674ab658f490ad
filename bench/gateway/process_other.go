//go:build !linux

package main

import (
	"errors"
	"time"
)

// cpuTime needs a kernel that tells the CPU time of another process.
func cpuTime(int) (time.Duration, error) {
	return 0, errors.New("CPU time of another process is read on Linux only; run the benchmark there")
}

// pin does nothing where the kernel has no such call.
func pin(int, int) {}
