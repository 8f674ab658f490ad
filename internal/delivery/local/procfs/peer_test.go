package procfs

import (
	"net"
	"net/netip"
	"os"
	"testing"
)

func TestPeerUIDOfALoopbackConnection(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0"} {
		l, err := net.Listen("tcp", listen)
		if err != nil {
			t.Logf("%s is not to be had here: %v", listen, err)
			continue
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		host, _, _ := net.SplitHostPort(listen)
		if host == "::" { // both ends of a mapped address
			host = "127.0.0.1"
		}
		out, err := net.Dial("tcp", net.JoinHostPort(host, port))
		if err != nil {
			t.Fatal(err)
		}
		in, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		peer, here := netip.MustParseAddrPort(in.RemoteAddr().String()), netip.MustParseAddrPort(in.LocalAddr().String())
		if uid, ok, err := PeerUID(peer, here); err != nil || !ok || uid != os.Geteuid() {
			t.Errorf("%s: uid %d, %v (%v), want %d", listen, uid, ok, err, os.Geteuid())
		}
		if _, ok, err := PeerUID(netip.AddrPortFrom(peer.Addr(), 1), here); err != nil || ok {
			t.Errorf("%s: a connection that is none has an owner (%v)", listen, err)
		}
		for _, c := range []interface{ Close() error }{out, in, l} {
			_ = c.Close()
		}
	}
}

func TestParseSocket(t *testing.T) {
	t.Parallel()
	raw := []byte("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n" +
		"   0: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000     0        0 7 1\n" +
		"   1: 0100007F:C001 0100007F:1F90 01 00000000:00000000 00:00000000 00000000 200003        0 8 1\n")
	here, peer := netip.MustParseAddrPort("127.0.0.1:8080"), netip.MustParseAddrPort("127.0.0.1:49153")
	if s, ok := parseSocket(raw, peer, here); !ok || s != (socket{state: 1, uid: 200003, inode: 8}) {
		t.Errorf("%+v, %v", s, ok)
	}
}
