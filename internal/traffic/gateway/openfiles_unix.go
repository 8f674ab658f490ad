//go:build unix

package gateway

import "syscall"

// openFilesLimit is how many files this process may have open; Go's runtime
// has raised it as far as it may be.
func openFilesLimit() (uint64, bool) {
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return uint64(limit.Cur), err == nil //nolint:unconvert // signed on some systems, and never negative
}
