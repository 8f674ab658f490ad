// Command placement measures what placing by memory is worth (account 2). It
// replays recorded mixes of requests until the first one is rejected and
// prints how many models were placed and how much of the memory they used, for
// four policies: whole cards, the total of a node, best fit, and ours. Each mix
// is replayed as recorded and in 49 more orders, because where the first
// rejection falls in a single one is luck; all of it is the same each time. It
// then measures the CPU time of one choice on 1000 nodes.
//
//	go run ./bench/placement [--quick] [--record]
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
)

const (
	// gain is how many times as many models as with whole cards we want to place.
	gain = 1.8
	// orders is in how many orders each mix is replayed.
	orders = 50
)

type result map[string]any

func main() {
	quick := flag.Bool("quick", false, "fewer rounds of the choice on 1000 nodes; replays are the same")
	record := flag.Bool("record", false, "write bench/placement/mixes anew from their recipes, and stop")
	flag.Parse()
	if err := run(*quick, *record); err != nil {
		fmt.Fprintln(os.Stderr, "bench/placement:", err)
		os.Exit(1)
	}
}

func run(quick, record bool) error {
	if record {
		return recordAll("bench/placement/mixes")
	}
	mixes, err := readAll()
	if err != nil {
		return err
	}
	var results []result
	fmt.Printf("models placed before the first rejection, in %d orders of each mix, and how full the cards were\n", orders)
	fmt.Printf("%-16s %28s %28s %28s %28s\n", "", "whole cards", "node total", "best fit", "ours")
	for _, m := range mixes {
		row, err := compare(m)
		if err != nil {
			return fmt.Errorf("replay %s: %w", m.name, err)
		}
		results = append(results, row...)
	}
	speed, err := choices(quick)
	if err != nil {
		return fmt.Errorf("measure choices: %w", err)
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"bench": "placement", "results": append(results, speed...)})
}

// compare replays one mix with each policy and prints a line.
func compare(m mix) ([]result, error) {
	var tallies []tally
	fmt.Printf("%-16s", m.name)
	for _, policy := range policies() {
		var t tally
		for order := range orders {
			p, err := policy(m.nodes)
			if err != nil {
				return nil, err
			}
			one, err := replay(m.dealt(order), p)
			if err != nil {
				return nil, fmt.Errorf("order %d: %w", order, err)
			}
			t.add(one)
		}
		tallies = append(tallies, t)
		fmt.Printf(" %28s", t)
	}
	fmt.Println()
	whole, total, best, ours := tallies[0], tallies[1], tallies[2], tallies[3]
	return []result{
		ratio("placed_"+m.name, "models", ours.placed, whole.placed, gain, "higher"),
		ratio("placed_over_best_fit_"+m.name, "models", ours.placed, best.placed, 1, "higher"),
		{"name": "failed_starts_" + m.name, "value": ours.failed, "unit": "starts", "baseline": total.failed, "target": 0, "better": "lower"},
	}, nil
}

func ratio(name, unit string, value, baseline int, target float64, better string) result {
	return result{
		"name": name, "value": value, "unit": unit, "baseline": baseline,
		"ratio": float64(value*1000/max(1, baseline)) / 1000, "target": target, "better": better,
	}
}
