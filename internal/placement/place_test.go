package placement

import (
	"math"
	"testing"
)

func node(name string, sizes ...int64) Node {
	n := Node{Name: name}
	for i, s := range sizes {
		n.Cards = append(n.Cards, Card{UUID: name + "-" + string(rune('a'+i)), TotalMiB: s, Healthy: true})
	}
	return n
}

func place(t *testing.T, nodes []Node, allocations []Allocation, r Request) Decision {
	t.Helper()
	d, err := Place(nodes, allocations, r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// C054: free memory on two cards is not free memory on one.
func TestTwoFragmentsAreNotOne(t *testing.T) {
	t.Parallel()
	nodes := []Node{node("gpu", 16000, 16000)}
	held := []Allocation{{"p1", "gpu-a", 10000}, {"p2", "gpu-b", 10000}}

	d := place(t, nodes, held, Request{MiB: 12000, Cards: 1})
	want := "largest fragment 6000 MiB < 12000 MiB on node gpu (2 cards, 11.7 GiB free in total)"
	if d.Fits() || d.Reason != want {
		t.Fatalf("12000 MiB: got %+v, want reason %q", d, want)
	}
	d = place(t, nodes, held, Request{MiB: 6000, Cards: 1})
	if !d.Fits() || d.Cards[0] != (Chosen{UUID: "gpu-a", FreeMiB: 6000}) {
		t.Fatalf("6000 MiB: got %+v", d)
	}
	d = place(t, nodes, held, Request{MiB: 6000, Cards: 2})
	if len(d.Cards) != 2 {
		t.Fatalf("two cards were asked for: got %+v", d)
	}
}

func TestBestFitKeepsWholeCardsWhole(t *testing.T) {
	t.Parallel()
	nodes := []Node{node("gpu", 40000, 40000, 24000)}
	held := []Allocation{{"p", "gpu-b", 30000}}
	d := place(t, nodes, held, Request{MiB: 8000, Cards: 1})
	if d.Cards[0].UUID != "gpu-b" || d.Cards[0].FreeMiB != 10000 {
		t.Fatalf("the tightest fragment is on gpu-b: got %+v", d)
	}
}

// The figures of a reason are what a person checks it by.
func TestReason(t *testing.T) {
	t.Parallel()
	n := node("gpu-3", 24576, 24576, 24576, 24576, 24576, 24576, 24576, 24576)
	n.Name = "gpu-3"
	var held []Allocation
	for i, c := range n.Cards {
		free := []int64{3812, 3100, 2750, 2700, 2500, 2300, 2200, 2142}[i]
		held = append(held, Allocation{"o", c.UUID, c.TotalMiB - free})
	}
	d := place(t, []Node{n}, held, Request{MiB: 4096, Cards: 1})
	if want := "largest fragment 3812 MiB < 4096 MiB on node gpu-3 (8 cards, 21 GiB free in total)"; d.Reason != want {
		t.Fatalf("got %q, want %q", d.Reason, want)
	}
	other := node("gpu-4", 24576)
	d = place(t, []Node{other, n}, append(held, Allocation{"o", "gpu-4-a", 24000}), Request{MiB: 4096, Cards: 1})
	if want := "largest fragment 3812 MiB < 4096 MiB on node gpu-3 (8 cards, 21 GiB free in total); closest of 2 nodes"; d.Reason != want {
		t.Fatalf("got %q, want %q", d.Reason, want)
	}
	d = place(t, []Node{{Name: "bare"}}, nil, Request{MiB: 4096, Cards: 2})
	if want := "node bare has no card: 4096 MiB on 2 cards cannot be placed"; d.Reason != want {
		t.Fatalf("got %q, want %q", d.Reason, want)
	}
}

// C061: what is freed is what was missing.
func TestFreedMemoryFits(t *testing.T) {
	t.Parallel()
	nodes := []Node{node("gpu", 20000, 20000)}
	held := []Allocation{{"p", "gpu-a", 12000}, {"q", "gpu-b", 11000}, {"r", "gpu-b", 2000}}
	d := place(t, nodes, held, Request{MiB: 9000, Cards: 1})
	if want := "largest fragment 8000 MiB < 9000 MiB on node gpu (2 cards, 14.6 GiB free in total)"; d.Reason != want {
		t.Fatalf("got %q, want %q", d.Reason, want)
	}
	d = place(t, nodes, held[:2], Request{MiB: 9000, Cards: 1})
	if !d.Fits() || d.Cards[0] != (Chosen{UUID: "gpu-b", FreeMiB: 9000}) {
		t.Fatalf("got %+v", d)
	}
}

// C056, C057: accounts are sums over owners; an owner that is listed is
// counted, whatever anybody believes of it, and one that is gone is not.
func TestAccountsAreSumsOverOwners(t *testing.T) {
	t.Parallel()
	n := node("gpu", 10000)
	d := place(t, []Node{n}, []Allocation{{"bound though the bind failed", "gpu-a", 6000}}, Request{MiB: 6000, Cards: 1})
	if d.Fits() {
		t.Fatalf("the card is given twice: %+v", d)
	}
	over := []Allocation{{"p", "gpu-a", 6000}, {"q", "gpu-a", 6000}, {"r", "a card that is gone", 9000}}
	v, err := NewView(n, over)
	if err != nil || v.FreeMiB() != 0 {
		t.Fatalf("overfull cards have nothing free: %+v (%v)", v, err)
	}
	for _, a := range over[:2] {
		if err := v.Give(a.Card, a.MiB); err != nil {
			t.Fatal(err)
		}
	}
	if v.FreeMiB() != 10000 {
		t.Fatalf("%d MiB are free after everybody left", v.FreeMiB())
	}
}

func TestSeveralCardsAllOrNone(t *testing.T) {
	t.Parallel()
	nodes := []Node{node("x", 10000, 2000), node("y", 9000, 1000)}
	d := place(t, nodes, nil, Request{MiB: 8000, Cards: 2})
	want := "1 card with a fragment of 8000 MiB; 2 are needed on node x (2 cards, 11.7 GiB free in total), largest fragment 10000 MiB; closest of 2 nodes"
	if d.Fits() || d.Reason != want {
		t.Fatalf("got %+v, want reason %q", d, want)
	}
}

func TestUnhealthyCardsHoldNothing(t *testing.T) {
	t.Parallel()
	n := node("gpu", 8000, 8000)
	n.Cards[0].Healthy = false
	d := place(t, []Node{n}, nil, Request{MiB: 4000, Cards: 1})
	if d.Cards[0].UUID != "gpu-b" {
		t.Fatalf("got %+v", d)
	}
	n.Cards[1].Healthy = false
	d = place(t, []Node{n}, nil, Request{MiB: 4000, Cards: 1})
	if want := "largest fragment 0 MiB < 4000 MiB on node gpu (0 cards, 0 MiB free in total, 2 more unhealthy)"; d.Reason != want {
		t.Fatalf("got %q, want %q", d.Reason, want)
	}
	d = place(t, nil, nil, Request{MiB: 4000, Cards: 1})
	if want := "there is no card: 4000 MiB on 1 card cannot be placed"; d.Reason != want {
		t.Fatalf("got %q, want %q", d.Reason, want)
	}
}

func TestReserveAndUnaccounted(t *testing.T) {
	t.Parallel()
	for total, want := range map[int64]int64{24576: 738, 4096: 256, 81920: 2458, 1: 256} {
		if got := DefaultReserve().Of(total); got != want {
			t.Errorf("reserve of %d MiB is %d, want %d", total, got, want)
		}
	}
	n := Node{Name: "n", Cards: []Card{{UUID: "c", TotalMiB: 10000, ReservedMiB: 300, UnaccountedMiB: 700, Healthy: true}}}
	v, err := NewView(n, []Allocation{{"o", "c", 4000}})
	if err != nil || v.LargestMiB() != 5000 {
		t.Fatalf("free %+v (%v), want 5000 MiB", v, err)
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	t.Parallel()
	good := []Node{node("n", 1000)}
	for name, r := range map[string]Request{
		"zero": {MiB: 0, Cards: 1}, "negative": {MiB: -5, Cards: 1}, "no card": {MiB: 5},
		"overflow": {MiB: math.MaxInt64, Cards: 1},
	} {
		if d, err := Place(good, nil, r, nil); err == nil {
			t.Errorf("%s: placed as %+v", name, d)
		}
	}
	for name, nodes := range map[string][]Node{
		"twice":    {node("n", 1000), node("n", 1000)},
		"negative": {node("n", -1)},
		"overflow": {node("n", math.MaxInt64)},
	} {
		if d, err := Place(nodes, nil, Request{MiB: 1, Cards: 1}, nil); err == nil {
			t.Errorf("%s: placed as %+v", name, d)
		}
	}
	if v, err := NewView(good[0], []Allocation{{"o", "n-a", -1000}}); err == nil {
		t.Errorf("a negative allocation made %d MiB free", v.FreeMiB())
	}
}
