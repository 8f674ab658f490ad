package gateway

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// boundUnacknowledged sets TCP_USER_TIMEOUT (RFC 5482): without it, data for a
// vanished peer is sent again for a quarter of an hour.
func boundUnacknowledged(c *net.TCPConn, limit time.Duration) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds()))
	})
}
