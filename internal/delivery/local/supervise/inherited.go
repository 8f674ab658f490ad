package supervise

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// keepInherited sees to it that no descriptor beyond stdin, stdout and stderr
// reaches a program that this process starts, unless it is handed over on
// purpose. Go's own descriptors close by themselves; what a shell, a service
// manager or a C library opened may not, and an engine that runs for somebody
// else could read it.
func keepInherited() error {
	err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	// Kernels before 5.11 know neither the call nor its flag.
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) {
		err = keepListed()
	}
	if err != nil {
		return fmt.Errorf("keep inherited files from engines: %w", err)
	}
	return nil
}

// keepListed does the same one by one.
func keepListed() error {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range open {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= 2 {
			continue
		}
		unix.CloseOnExec(fd) // the listing's own is closed by now
	}
	return nil
}
