//go:build !unix

package main

import (
	"syscall"
	"time"
)

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var created, exited, kernel, user syscall.Filetime
	p, err := syscall.GetCurrentProcess()
	if err == nil {
		err = syscall.GetProcessTimes(p, &created, &exited, &kernel, &user)
	}
	if err != nil {
		panic(err) // the handle is our own
	}
	ticks := func(f syscall.Filetime) int64 { return int64(f.HighDateTime)<<32 + int64(f.LowDateTime) }
	return time.Duration(100 * (ticks(kernel) + ticks(user)))
}
