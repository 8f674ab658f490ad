//go:build unix

package upstream

import (
	"errors"
	"net"
	"syscall"
)

// probe tells whether an idle connection is still what it was: the engine has
// neither closed it nor said anything that nobody asked for.
type probe struct {
	raw   syscall.RawConn // nil: not to be had
	look  func(fd uintptr) bool
	quiet bool
}

func (p *probe) watch(c net.Conn) {
	if with, ok := c.(syscall.Conn); ok {
		p.raw, _ = with.SyscallConn()
	}
	p.look = func(fd uintptr) bool {
		var one [1]byte // a byte that is read here belongs to a connection that is given up
		_, err := syscall.Read(int(fd), one[:])
		p.quiet = errors.Is(err, syscall.EAGAIN)
		return true
	}
}

// silent asks the system without waiting.
func (p *probe) silent() bool {
	if p.raw == nil {
		return true
	}
	return p.raw.Read(p.look) == nil && p.quiet
}
