//go:build unix

package main

import (
	"syscall"
	"time"
)

// cpuTime is what this process has used, in user and kernel mode.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // the one argument is right
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
