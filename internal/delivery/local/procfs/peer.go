package procfs

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// PeerUID tells whose socket is at the other end of a TCP connection within
// this machine, whose two addresses are given; false if there is none (any more).
func PeerUID(peer, here netip.AddrPort) (int, bool, error) {
	s, found, err := readSockets(plain(peer), plain(here))
	return s.uid, found, err
}

func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

func socketFiles() []string { return []string{root + "/self/net/tcp", root + "/self/net/tcp6"} }

// readSocketFile is empty where the machine has no such protocol.
func readSocketFile(file string) ([]byte, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return raw, err //nolint:wrapcheck // callers say what they read
}

// parseSocket finds the socket between two addresses, or with no remote one
// the listener on a local address or on all.
func parseSocket(raw []byte, local, remote netip.AddrPort) (socket, bool) {
	port := fmt.Sprintf(":%04X", local.Port())
	lines := bufio.NewScanner(bytes.NewReader(raw))
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 10 || !strings.HasSuffix(f[1], port) {
			continue
		}
		own := parseAddress(f[1])
		if remote.IsValid() && (own != local || parseAddress(f[2]) != remote) {
			continue
		}
		if !remote.IsValid() && (f[3] != stateListen || own != local && !own.Addr().IsUnspecified()) {
			continue
		}
		state, err := strconv.ParseUint(f[3], 16, 8)
		uid, err2 := strconv.Atoi(f[7])
		inode, err3 := strconv.ParseUint(f[9], 10, 64)
		if errors.Join(err, err2, err3) == nil {
			return socket{state: byte(state), uid: uid, inode: inode}, true
		}
	}
	return socket{}, false
}

// parseAddress reads an address as Linux prints it: words of four bytes, each
// in the machine's own order.
func parseAddress(text string) netip.AddrPort {
	host, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	number, err2 := strconv.ParseUint(port, 16, 16)
	if err != nil || err2 != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	addr, ok := netip.AddrFromSlice(raw)
	if !ok {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(number))
}
