package procfs

import (
	"errors"
	"fmt"
	"net/netip"
)

// socket is one TCP socket of this machine as the kernel tells of it.
type socket struct {
	state byte
	uid   int
	inode uint64 // 0: no process has accepted it yet, or none holds it any more
}

// ErrNotAnswered means that nobody of this machine is at the other end.
var ErrNotAnswered = errors.New("no socket of this machine is at the other end of the connection (any more)")

// Answerer tells whose process answers, or will, on a connection from here to
// an address of this machine. It is ErrNotAnswered if nobody does.
func Answerer(here, peer netip.AddrPort) (uid int, err error) {
	here, peer = plain(here), plain(peer)
	find := askKernel
	s, found, err := find(peer, here)
	if err != nil {
		find = readSockets // a kernel or a sandbox without that interface
		s, found, err = find(peer, here)
	}
	if err != nil || found && s.inode != 0 {
		return s.uid, err
	}
	// Until it is accepted it lies in the queue of its listener and has no
	// owner of its own. Whoever listens is looked up first, and that it is
	// still not accepted after it: a listener that goes takes its queue along,
	// so the one that was seen is the one whose queue it is.
	listener, listening, err := find(peer, netip.AddrPort{})
	if err != nil {
		return 0, err
	}
	s, found, err = find(peer, here)
	switch {
	case err != nil:
		return 0, err
	case found && s.inode != 0:
		return s.uid, nil
	case found && listening:
		return listener.uid, nil
	}
	return 0, ErrNotAnswered
}

// readSockets finds a socket in the kernel's lists: the one between these
// addresses, or the one that listens on local if there is no remote.
func readSockets(local, remote netip.AddrPort) (socket, bool, error) {
	for _, file := range socketFiles() {
		raw, err := readSocketFile(file)
		if err != nil {
			return socket{}, false, fmt.Errorf("read connections: %w", err)
		}
		if s, ok := parseSocket(raw, local, remote); ok {
			return s, true, nil
		}
	}
	return socket{}, false, nil
}
