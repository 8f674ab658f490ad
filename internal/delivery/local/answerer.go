package local

import (
	"fmt"
	"net"
	"net/netip"

	"modeldock.io/internal/delivery/local/procfs"
)

// CheckEngine is nil if the other end of a new connection is an engine of the
// user uid. All users of a machine share its loopback ports: a tenant's program
// may listen where another tenant's engine did, or was about to.
func CheckEngine(c net.Conn, uid int) error {
	here, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil {
		return fmt.Errorf("see who answers on %s: %w", c.RemoteAddr(), err)
	}
	peer, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return fmt.Errorf("see who answers on %s: %w", c.RemoteAddr(), err)
	}
	have, err := procfs.Answerer(here, peer)
	switch {
	case err != nil:
		return fmt.Errorf("see who answers on %s: %w", peer, err)
	case have != uid:
		return fmt.Errorf("%s is answered by a process of uid %d, but the engine runs as uid %d: nothing was sent to it", peer, have, uid)
	}
	return nil
}
