package procfs

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// The kernel's two interfaces say the same of a connection: while it waits to
// be accepted, afterwards, and when it is gone.
func TestAnswererOfALoopbackConnection(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0"} {
		l, err := net.Listen("tcp", listen)
		if err != nil {
			t.Logf("%s is not to be had here: %v", listen, err)
			continue
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		host, _, _ := net.SplitHostPort(listen)
		if host == "::" {
			host = "127.0.0.1"
		}
		out, err := net.Dial("tcp", net.JoinHostPort(host, port))
		if err != nil {
			t.Fatal(err)
		}
		here, peer := plain(netip.MustParseAddrPort(out.LocalAddr().String())), plain(netip.MustParseAddrPort(out.RemoteAddr().String()))
		for name, find := range map[string]func(a, b netip.AddrPort) (socket, bool, error){"asked": askKernel, "read": readSockets} {
			if s, ok, err := find(peer, netip.AddrPort{}); err != nil || !ok || s.uid != os.Geteuid() || s.inode == 0 {
				t.Errorf("%s, %s: the listener is %+v %v (%v)", listen, name, s, ok, err)
			}
			if s, ok, err := find(peer, here); err != nil || !ok || s.inode != 0 {
				t.Errorf("%s, %s: not yet accepted, it is %+v %v (%v)", listen, name, s, ok, err)
			}
			if s, ok, err := find(peer, netip.AddrPortFrom(here.Addr(), 1)); err != nil || ok {
				t.Errorf("%s, %s: a connection that is none is %+v (%v)", listen, name, s, err)
			}
		}
		answered(t, listen+", waiting", here, peer)
		in, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		answered(t, listen+", accepted", here, peer)
		_ = l.Close()
		answered(t, listen+", without its listener", here, peer)
		_ = in.(*net.TCPConn).SetLinger(0) // reset
		_ = in.Close()
		if uid, err := Answerer(here, peer); !errors.Is(err, ErrNotAnswered) {
			t.Errorf("%s: gone, it is uid %d's (%v)", listen, uid, err)
		}
		_ = out.Close()
	}
}

func answered(t *testing.T, when string, here, peer netip.AddrPort) {
	t.Helper()
	if uid, err := Answerer(here, peer); err != nil || uid != os.Geteuid() {
		t.Errorf("%s: uid %d (%v), want %d", when, uid, err, os.Geteuid())
	}
}

// A socket that somebody else made is somebody else's, accepted or not.
func TestAnswererOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can act for another user")
	}
	const other, third = 200_077, 200_078
	var l net.Listener
	var err error
	as(t, other, func() { l, err = net.Listen("tcp", "127.0.0.1:0") })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	out, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	here, peer := netip.MustParseAddrPort(out.LocalAddr().String()), netip.MustParseAddrPort(out.RemoteAddr().String())
	if uid, err := Answerer(here, peer); err != nil || uid != other {
		t.Errorf("waiting at the listener of %d, it is uid %d's (%v)", other, uid, err)
	}
	var in net.Conn
	as(t, third, func() { in, err = l.Accept() })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	if uid, err := Answerer(here, peer); err != nil || uid != third {
		t.Errorf("accepted by %d, it is uid %d's (%v)", third, uid, err)
	}
}

// as makes sockets belong to uid that do makes in its own goroutine.
func as(t *testing.T, uid int, do func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Setfsuid(uid); err != nil {
		t.Fatal(err)
	}
	do()
	if err := unix.Setfsuid(os.Geteuid()); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkAnswerer(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	out, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	here, peer := netip.MustParseAddrPort(out.LocalAddr().String()), netip.MustParseAddrPort(out.RemoteAddr().String())
	for b.Loop() {
		if _, err := Answerer(here, peer); err != nil {
			b.Fatal(err)
		}
	}
}
