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
	for _, file := range []string{root + "/self/net/tcp", root + "/self/net/tcp6"} {
		raw, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // no IPv6 here
		}
		if err != nil {
			return 0, false, fmt.Errorf("read connections: %w", err)
		}
		if uid, ok := parsePeer(raw, plain(peer), plain(here)); ok {
			return uid, true, nil
		}
	}
	return 0, false, nil
}

func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

func parsePeer(raw []byte, peer, here netip.AddrPort) (int, bool) {
	port := fmt.Sprintf(":%04X", peer.Port())
	lines := bufio.NewScanner(bytes.NewReader(raw))
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 10 || !strings.HasSuffix(f[1], port) || parseAddress(f[1]) != peer || parseAddress(f[2]) != here {
			continue
		}
		if uid, err := strconv.Atoi(f[7]); err == nil {
			return uid, true
		}
	}
	return 0, false
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
