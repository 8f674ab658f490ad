package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"

	"modeldock.io/internal/modelspec"
	"modeldock.io/internal/placement"
)

// mostMicroseconds is what one choice on 1000 nodes may cost.
const mostMicroseconds = 150

// choices measures the CPU time of one choice on 1000 nodes of 8 cards, which
// are half used. CPU time, because wall time cannot be judged on shared cores.
func choices(quick bool) ([]result, error) {
	runtime.GOMAXPROCS(1)
	rounds, each := 15, 400
	if quick {
		rounds = 5
	}
	views, seen, err := halfUsed(1000)
	if err != nil {
		return nil, err
	}
	var out []result
	for _, r := range []placement.Request{
		{MiB: 4096, Cards: 1, Class: modelspec.ClassLLM, Workload: modelspec.WorkloadOnline},
		{MiB: 16384, Cards: 1},
		{MiB: 8192, Cards: 4},
	} {
		var took []float64
		for round := range rounds + 1 {
			before := cpuTime()
			for range each {
				if _, err := placement.Choose(views, r, seen); err != nil {
					return nil, err
				}
			}
			if round > 0 { // the first one warms up
				took = append(took, float64((cpuTime()-before).Nanoseconds())/float64(each)/1000)
			}
		}
		slices.Sort(took)
		median := took[len(took)/2]
		fmt.Printf("one choice on 1000 nodes × 8 cards, %d MiB × %d: %.0f µs of one core (target ≤ %d)\n", r.MiB, r.Cards, median, mostMicroseconds)
		out = append(out, result{
			"name": fmt.Sprintf("choose_1000x8_%dmib_x%d", r.MiB, r.Cards), "value": float64(int(median*10)) / 10, "unit": "µs",
			"target": mostMicroseconds, "better": "lower",
		})
	}
	return out, nil
}

func halfUsed(nodes int) ([]*placement.View, *placement.Sizes, error) {
	random := rand.New(rand.NewPCG(1, 2))
	asked := []int64{2048, 4096, 6000, 8192, 10000, 16384, 20480, 40000}
	var views []*placement.View
	for n := range nodes {
		nd, err := parseNode(fmt.Sprintf("gpu-%d", n), node(8, []string{"24576", "40960", "81920"}[n%3]))
		if err != nil {
			return nil, nil, err
		}
		var held []placement.Allocation
		for _, c := range nd.Cards {
			for range random.IntN(4) {
				held = append(held, placement.Allocation{Owner: "o", Card: c.UUID, MiB: asked[random.IntN(5)]})
			}
		}
		v, err := placement.NewView(nd, held)
		if err != nil {
			return nil, nil, err
		}
		views = append(views, v)
	}
	var requests []placement.Request
	for _, mib := range asked {
		requests = append(requests, placement.Request{MiB: mib, Cards: 1})
	}
	seen, err := placement.NewSizes(requests)
	return views, seen, err
}
