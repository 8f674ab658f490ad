package placement

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"modeldock.io/internal/modelspec"
)

// fleet is a half-used cluster of 8-card nodes, the same each time.
func fleet(tb testing.TB, nodes int) ([]*View, *Sizes) {
	tb.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	asked := []int64{2048, 4096, 6000, 8192, 10000, 16384, 20480, 40000}
	var views []*View
	for n := range nodes {
		nd := Node{Name: fmt.Sprintf("gpu-%d", n)}
		var held []Allocation
		for c := range 8 {
			total := []int64{24576, 40960, 81920}[n%3]
			uuid := fmt.Sprintf("GPU-%04d-%d", n, c)
			nd.Cards = append(nd.Cards, Card{UUID: uuid, Index: c, TotalMiB: total, ReservedMiB: DefaultReserve().Of(total), Healthy: true})
			for range random.IntN(4) {
				held = append(held, Allocation{Owner: "o", Card: uuid, MiB: asked[random.IntN(5)]})
			}
		}
		v, err := NewView(nd, held)
		if err != nil {
			tb.Fatal(err)
		}
		views = append(views, v)
	}
	var requests []Request
	for _, mib := range asked {
		requests = append(requests, Request{MiB: mib, Cards: 1})
	}
	seen, err := NewSizes(requests)
	if err != nil {
		tb.Fatal(err)
	}
	return views, seen
}

func BenchmarkChoose1000Nodes8Cards(b *testing.B) {
	views, seen := fleet(b, 1000)
	for _, r := range []Request{
		{MiB: 4096, Cards: 1},
		{MiB: 4096, Cards: 1, Class: modelspec.ClassLLM},
		{MiB: 16384, Cards: 1},
		{MiB: 8192, Cards: 4},
		{MiB: 90000, Cards: 1},
	} {
		b.Run(fmt.Sprintf("%s%dMiBx%d", r.Class, r.MiB, r.Cards), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Choose(views, r, seen); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A fit allocates nothing, however many cards there are.
func TestFitAllocatesNothing(t *testing.T) {
	views, seen := fleet(t, 50)
	r := Request{MiB: 4096, Cards: 2, Class: modelspec.ClassLLM}
	buf := make([]Chosen, 0, 2)
	fitted := 0
	allocations := testing.AllocsPerRun(10, func() {
		for _, v := range views {
			if _, fits := v.Fit(&r, seen, buf); fits {
				fitted++
			}
			_ = v.Shortfall(&r)
		}
	})
	if allocations != 0 || fitted == 0 {
		t.Fatalf("%v allocations for %d fits", allocations, fitted)
	}
}
