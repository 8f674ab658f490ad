package cluster

import (
	"net/netip"
	"slices"
	"testing"
)

func TestAddressesOfNodesAndPodsAreDisjoint(t *testing.T) {
	t.Parallel()
	b := block(63)
	if b.String() != "10.201.252.0/22" {
		t.Errorf("the last block is %s", b)
	}
	last := nodeAddress(b, maxNodes-1)
	for i := range maxNodes {
		from, to := podRange(b, i)
		if !last.Less(from) || !from.Less(to) || !b.Contains(to) {
			t.Errorf("node %d: Pods from %s to %s, after %s, in %s", i, from, to, last, b)
		}
		last = to
	}
	if broadcast := netip.MustParseAddr("10.201.255.255"); !last.Less(broadcast) {
		t.Errorf("Pods reach the broadcast address: %s", last)
	}
}

func TestUsedRoutesAreAvoided(t *testing.T) {
	t.Parallel()
	table := "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n" +
		"eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n" +
		"vpn0\t0000C90A\t00000000\t0001\t0\t0\t0\t00F0FFFF\t0\t0\t0\n"
	got := routePrefixes(table)
	if want := []netip.Prefix{netip.MustParsePrefix("10.201.0.0/20")}; !slices.Equal(got, want) {
		t.Fatalf("routes %v, want %v", got, want)
	}
	if n := firstFree(append(got, block(4))); n != 5 {
		t.Errorf("block %d is taken, want 5", n)
	}
	if n := firstFree([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}); n != -1 {
		t.Errorf("block %d is taken from a network in use", n)
	}
}
