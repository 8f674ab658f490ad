//go:build !linux

package gateway

import (
	"net"
	"time"
)

// boundUnacknowledged does nothing where the kernel has no such option.
func boundUnacknowledged(*net.TCPConn, time.Duration) {}
