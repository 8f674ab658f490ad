package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// result is one line of the report; Target bounds the ratio.
type result struct {
	Name     string  `json:"name"`
	Value    float64 `json:"value"`
	Unit     string  `json:"unit"`
	Baseline float64 `json:"baseline"`
	Ratio    float64 `json:"ratio"`
	Target   float64 `json:"target,omitempty"`
	Better   string  `json:"better"`
}

// report is what was measured, and what was not.
type report struct {
	results []result          // ours
	others  [][]result        // of the same line: the other sides'
	names   []string          // of the other sides
	skipped map[string]string // why a side is not there
}

// add takes the medians over the rounds; a ratio is the median of the rounds'
// ratios, because both sides of a round had the same neighbours.
func (r *report) add(m measurement, sides []*side, values [][]float64) {
	of := func(i int, name string, target float64) result {
		ratios := make([]float64, m.rounds)
		for round := range ratios {
			ratios[round] = values[i][round] / values[0][round]
		}
		return result{
			Name: name, Value: round3(median(values[i])), Unit: m.unit, Baseline: round3(median(values[0])),
			Ratio: round3(median(ratios)), Target: target, Better: "lower",
		}
	}
	var others []result
	r.names = nil
	for i := 2; i < len(sides) && sides[i].name != directName; i++ {
		r.names = append(r.names, sides[i].name)
		others = append(others, of(i, m.name+"_"+strings.ToLower(sides[i].name), 0))
	}
	r.results, r.others = append(r.results, of(1, m.name, m.target)), append(r.others, others)
}

// print writes a table for people and a line for machines.
func (r *report) print() error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	head := []string{"measurement", "unit", proxyName, gatewayName, "ratio", "target"}
	for _, name := range r.names {
		head = append(head, name, "ratio")
	}
	_, _ = fmt.Fprintln(w, strings.Join(head, "\t")+"\t")
	var all []result
	for i, ours := range r.results {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%.2f\t%.2f\t%.2f\t≤ %.2f\t", ours.Name, ours.Unit, ours.Baseline, ours.Value, ours.Ratio, ours.Target)
		all = append(all, ours)
		for _, other := range r.others[i] {
			_, _ = fmt.Fprintf(w, "%.2f\t%.2f\t", other.Value, other.Ratio)
			all = append(all, other)
		}
		_, _ = fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	document := map[string]any{"bench": "gateway", "results": all}
	for _, p := range peers() {
		if why, absent := r.skipped[p.name]; absent {
			fmt.Printf("skipped: %s: %s\n", p.name, why)
			document["skipped"] = r.skipped
		}
	}
	line, err := json.Marshal(document)
	if err != nil {
		return err
	}
	fmt.Println(string(line))
	return nil
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

func round3(v float64) float64 { return math.Round(v*1000) / 1000 }
