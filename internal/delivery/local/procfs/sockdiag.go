package procfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// The kernel's sock_diag interface (sock_diag(7)): one question for one socket,
// where the lists in /proc would be read whole for it.
const (
	diagByFamily  = 20
	diagHead      = 16 // struct nlmsghdr
	diagRequest   = diagHead + 56
	diagAnswer    = diagHead + 72 // with struct inet_diag_msg
	diagAnyCookie = ^uint64(0)
	diagListen    = 10 // TCP_LISTEN
)

// askKernel is readSockets by one question.
func askKernel(local, remote netip.AddrPort) (socket, bool, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return socket{}, false, fmt.Errorf("ask the kernel for a socket: %w", os.NewSyscallError("socket", err))
	}
	defer func() { _ = unix.Close(fd) }()
	// The kernel answers before Sendto returns; a pause would be its fault.
	if err := unix.Sendto(fd, diagQuestion(local, remote), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return socket{}, false, fmt.Errorf("ask the kernel for a socket: %w", os.NewSyscallError("sendto", err))
	}
	answer := make([]byte, 512)
	n, _, err := unix.Recvfrom(fd, answer, unix.MSG_DONTWAIT)
	if err != nil {
		return socket{}, false, fmt.Errorf("ask the kernel for a socket: %w", os.NewSyscallError("recvfrom", err))
	}
	s, found, err := parseDiag(answer[:n])
	if found && !remote.IsValid() != (s.state == diagListen) {
		return socket{}, false, err // without the connection, the kernel names the listener
	}
	return s, found, err
}

func diagQuestion(local, remote netip.AddrPort) []byte {
	q := make([]byte, diagRequest)
	order := binary.NativeEndian
	order.PutUint32(q, diagRequest)
	order.PutUint16(q[4:], diagByFamily)
	order.PutUint16(q[6:], unix.NLM_F_REQUEST)
	q[diagHead] = unix.AF_INET
	if local.Addr().Is6() {
		q[diagHead] = unix.AF_INET6
	}
	q[diagHead+1] = unix.IPPROTO_TCP
	order.PutUint32(q[diagHead+4:], ^uint32(0)) // every state
	id := q[diagHead+8:]
	binary.BigEndian.PutUint16(id, local.Port())
	binary.BigEndian.PutUint16(id[2:], remote.Port())
	copy(id[4:20], local.Addr().AsSlice())
	copy(id[20:36], remote.Addr().AsSlice()) // of no address: nothing
	order.PutUint64(id[40:], diagAnyCookie)
	return q
}

func parseDiag(raw []byte) (socket, bool, error) {
	order := binary.NativeEndian
	if len(raw) < diagHead+4 {
		return socket{}, false, fmt.Errorf("ask the kernel for a socket: an answer of %d bytes", len(raw))
	}
	switch kind := order.Uint16(raw[4:]); {
	case kind == unix.NLMSG_ERROR:
		code := -order.Uint32(raw[diagHead:]) // it is negated there
		if err := unix.Errno(code); !errors.Is(err, unix.ENOENT) {
			return socket{}, false, fmt.Errorf("ask the kernel for a socket: %w", err)
		}
		return socket{}, false, nil
	case kind != diagByFamily || len(raw) < diagAnswer:
		return socket{}, false, fmt.Errorf("ask the kernel for a socket: an answer of kind %d with %d bytes", kind, len(raw))
	}
	var m struct {
		Family, State, Timer, Retrans byte
		ID                            [48]byte
		Expires, In, Out, UID, Inode  uint32
	}
	if err := binary.Read(bytes.NewReader(raw[diagHead:diagAnswer]), order, &m); err != nil {
		return socket{}, false, fmt.Errorf("ask the kernel for a socket: %w", err)
	}
	return socket{state: m.State, uid: int(m.UID), inode: uint64(m.Inode)}, true, nil
}
