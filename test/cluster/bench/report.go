package main

import (
	"encoding/json"
	"fmt"
	"slices"
)

// result is one comparison. Ratio is value to baseline, or absent where the
// target is absolute.
type result struct {
	Name     string  `json:"name"`
	Value    float64 `json:"value"`
	Unit     string  `json:"unit"`
	Baseline float64 `json:"baseline,omitempty"`
	Ratio    float64 `json:"ratio,omitempty"`
	Target   float64 `json:"target"`
	Better   string  `json:"better"`
}

func report(results []result) error {
	fmt.Printf("\n%-28s %10s %10s %5s %7s %9s\n", "comparison", "ours", "baseline", "unit", "ratio", "target")
	for _, r := range results {
		fmt.Printf("%-28s %10.1f %10.1f %5s %7.2f %6s %.4g\n", r.Name, r.Value, r.Baseline, r.Unit, r.Ratio, "≤", r.Target)
	}
	line, err := json.Marshal(struct {
		Bench   string   `json:"bench"`
		Results []result `json:"results"`
	}{"cluster", results})
	if err != nil {
		return fmt.Errorf("encode the results: %w", err)
	}
	fmt.Printf("%s\n", line)
	return nil
}

// quantile is the value that a share q of all is at most; the slice stays.
func quantile(v []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(v))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
