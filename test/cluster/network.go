package cluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// Each cluster has one bridge and a block of 1 024 addresses. The first of the
// block are the nodes', which stand on the bridge itself; then each node has
// some for its Pods, all on the same link. So neither routes nor forwarding nor
// address translation are needed, and nothing leaves the machine.
const (
	blocks      = 64
	blockBits   = 22
	maxNodes    = 4
	firstPod    = 16
	podsPerNode = 240
)

// block is the n-th of 10.201.0.0/16.
func block(n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 201, byte(4 * n), 0}), blockBits)
}

// nodeAddress is where node i's kubelet listens; node 0's is the API server's too.
func nodeAddress(b netip.Prefix, i int) netip.Addr { return plus(b.Addr(), 1+i) }

// podRange is the first and the last address of node i's Pods.
func podRange(b netip.Prefix, i int) (first, last netip.Addr) {
	return plus(b.Addr(), firstPod+podsPerNode*i), plus(b.Addr(), firstPod+podsPerNode*(i+1)-1)
}

func plus(a netip.Addr, n int) netip.Addr {
	four := a.As4()
	binary.BigEndian.PutUint32(four[:], binary.BigEndian.Uint32(four[:])+uint32(n))
	return netip.AddrFrom4(four)
}

// freeBlock finds a block that neither another cluster nor an address or a
// route of this machine uses.
func freeBlock(others []*record) (int, error) {
	used, err := usedPrefixes()
	if err != nil {
		return 0, err
	}
	for _, rec := range others {
		if rec.Block >= 0 {
			used = append(used, block(rec.Block))
		}
	}
	if n := firstFree(used); n >= 0 {
		return n, nil
	}
	return 0, fmt.Errorf("all %d address blocks of 10.201.0.0/16 are in use by this machine's addresses, routes and clusters", blocks)
}

// firstFree is -1 when no block is free.
func firstFree(used []netip.Prefix) int {
	for n := range blocks {
		if !slices.ContainsFunc(used, block(n).Overlaps) {
			return n
		}
	}
	return -1
}

func usedPrefixes() ([]netip.Prefix, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list this machine's addresses: %w", err)
	}
	var used []netip.Prefix
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			used = append(used, prefix.Masked())
		}
	}
	routes, err := os.ReadFile("/proc/net/route")
	if err != nil {
		return nil, fmt.Errorf("list this machine's routes: %w", err)
	}
	return append(used, routePrefixes(string(routes))...), nil
}

// routePrefixes reads the kernel's table: destination and mask are hexadecimal
// numbers in the machine's byte order. The default route covers everything and
// says nothing.
func routePrefixes(table string) []netip.Prefix {
	var prefixes []netip.Prefix
	for _, line := range strings.Split(table, "\n")[1:] {
		fields := strings.Fields(line)
		if len(fields) < 8 {
			continue
		}
		destination, err1 := strconv.ParseUint(fields[1], 16, 32)
		mask, err2 := strconv.ParseUint(fields[7], 16, 32)
		if err1 != nil || err2 != nil || mask == 0 {
			continue
		}
		var address, ones [4]byte
		binary.NativeEndian.PutUint32(address[:], uint32(destination))
		binary.NativeEndian.PutUint32(ones[:], uint32(mask))
		bits, _ := net.IPMask(ones[:]).Size()
		prefixes = append(prefixes, netip.PrefixFrom(netip.AddrFrom4(address), bits))
	}
	return prefixes
}

// makeBridge makes the device with the nodes' addresses.
func makeBridge(ctx context.Context, name string, b netip.Prefix, nodes int) error {
	commands := [][]string{{"link", "add", "name", name, "type", "bridge"}}
	for i := range nodes {
		commands = append(commands, []string{"addr", "add", netip.PrefixFrom(nodeAddress(b, i), b.Bits()).String(), "dev", name})
	}
	commands = append(commands, []string{"link", "set", name, "up"})
	for _, args := range commands {
		if err := ip(ctx, args...); err != nil {
			return fmt.Errorf("make the bridge %s for Pods: %w", name, err)
		}
	}
	return nil
}

func removeBridge(ctx context.Context, name string) error {
	if _, err := net.InterfaceByName(name); err != nil {
		return nil //nolint:nilerr // there is none any more, which is what was asked for
	}
	if err := ip(ctx, "link", "del", name); err != nil {
		return fmt.Errorf("remove the bridge %s: %w", name, err)
	}
	return nil
}

func ip(ctx context.Context, args ...string) error {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "ip", args...)
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return nil
}

// freePorts returns n free loopback ports.
func freePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer func() { _ = l.Close() }() // all stay open until all are found, so that they differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
