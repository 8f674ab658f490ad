package procfs

import (
	"bufio"
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// stateListen is TCP_LISTEN in /proc/net/tcp.
const stateListen = "0A"

// Listeners returns the socket inodes that listen on a TCP port, on any
// address of this machine.
func Listeners(port int) ([]uint64, error) {
	var out []uint64
	for _, file := range socketFiles() {
		raw, err := readSocketFile(file)
		if err != nil {
			return nil, fmt.Errorf("read listening sockets: %w", err)
		}
		out = append(out, parseListeners(raw, port)...)
	}
	return out, nil
}

func parseListeners(raw []byte, port int) []uint64 {
	var out []uint64
	want := fmt.Sprintf(":%04X", port)
	lines := bufio.NewScanner(bytes.NewReader(raw))
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 10 || f[3] != stateListen || !strings.HasSuffix(f[1], want) {
			continue
		}
		if inode, err := strconv.ParseUint(f[9], 10, 64); err == nil {
			out = append(out, inode)
		}
	}
	return out
}

// Owner says to whom a port's listeners belong.
type Owner int

// The owners.
const (
	Nobody   Owner = iota // nothing listens
	Tree                  // every listener is held by the process tree
	Stranger              // at least one listener is held by somebody else
)

// PortOwner tells whether what listens on port belongs to the process tree
// under pid (pid included).
func PortOwner(port, pid int) (Owner, error) {
	inodes, err := Listeners(port)
	if err != nil || len(inodes) == 0 {
		return Nobody, err
	}
	table, err := Table()
	if err != nil {
		return Nobody, err
	}
	held := map[uint64]bool{}
	for _, p := range append(Descendants(table, pid), pid) {
		socketsOf(p, held)
	}
	for _, i := range inodes {
		if !held[i] {
			return stillThere(port, i)
		}
	}
	return Tree, nil
}

// stillThere looks again for a listener that nobody in the tree held: its
// owner may just have ended, between the two looks.
func stillThere(port int, inode uint64) (Owner, error) {
	now, err := Listeners(port)
	if err != nil || !slices.Contains(now, inode) {
		return Nobody, err
	}
	return Stranger, nil
}

// PortUser tells whose socket listens on a port of 127.0.0.1; false if nobody's does.
func PortUser(port int) (uid int, listening bool, err error) {
	s, listening, err := readSockets(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port)), netip.AddrPort{}) //nolint:gosec // a port
	return s.uid, listening, err
}

// PortHolder finds a process that listens on port, for a message to a person;
// 0 if none can be seen.
func PortHolder(port int) int {
	inodes, err := Listeners(port)
	if err != nil || len(inodes) == 0 {
		return 0
	}
	all, err := pids()
	if err != nil {
		return 0
	}
	for _, pid := range all {
		held := map[uint64]bool{}
		socketsOf(pid, held)
		for _, i := range inodes {
			if held[i] {
				return pid
			}
		}
	}
	return 0
}

// socketsOf adds the socket inodes that pid holds open. What may not be read
// is not held by a process of ours.
func socketsOf(pid int, into map[uint64]bool) {
	dir := fmt.Sprintf("%s/%d/fd", root, pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		link, err := os.Readlink(dir + "/" + e.Name())
		if err != nil {
			continue
		}
		number, ok := strings.CutPrefix(link, "socket:[")
		if !ok {
			continue
		}
		if inode, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 64); err == nil {
			into[inode] = true
		}
	}
}
