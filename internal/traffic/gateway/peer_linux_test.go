package gateway

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestVanishedPeersAreBounded is C099 for a cable that was pulled: the kernel was told; that it obeys could only be
// seen with a firewall and a minute of patience.
func TestVanishedPeersAreBounded(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	NewServer(nil).ConnContext(t.Context(), conn)
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	read := func(option int) (value int) {
		_ = raw.Control(func(fd uintptr) { value, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, option) })
		return value
	}
	if got := read(unix.TCP_USER_TIMEOUT); err != nil || time.Duration(got)*time.Millisecond != deadPeerLimit {
		t.Errorf("TCP_USER_TIMEOUT %d ms, %v", got, err)
	}
	if idle, every, count := read(unix.TCP_KEEPIDLE), read(unix.TCP_KEEPINTVL), read(unix.TCP_KEEPCNT); idle+every*count > 60 {
		t.Errorf("an idle peer is given up after %d s", idle+every*count)
	}
}
