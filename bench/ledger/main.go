// Command ledger measures account 1 on SQLite, and on MariaDB where its server
// is installed: grouped commits against one commit per row, and admissions in
// sets against one per commit, in interleaved rounds of one run. It prints both sides and their ratio; the
// last line is JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

// plan says how much is measured; every figure is the median over the rounds.
type plan struct {
	rounds   int
	window   time.Duration // of one side in one round
	admitted int           // admissions of one side in one round
	waiting  []int         // queue lengths for picking the next request
	releases int           // freed slots to watch
}

var (
	full  = plan{rounds: 7, window: 2 * time.Second, admitted: 1024, waiting: []int{1000, 10_000, 100_000}, releases: 300}
	quick = plan{rounds: 5, window: 600 * time.Millisecond, admitted: 256, waiting: []int{1000, 20_000}, releases: 60}
)

func main() {
	short := flag.Bool("quick", false, "finish within a minute")
	dir := flag.String("dir", "", "folder for the databases; default a temporary one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	chosen := full
	if *short {
		chosen = quick
	}
	if err := run(ctx, chosen, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "bench/ledger:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, p plan, parent string) (err error) {
	dir, err := os.MkdirTemp(parent, "ledger-bench-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var results []result
	for _, measure := range []func(context.Context, plan, string) ([]result, error){measureSubmits, measureAdmissions, measureSelection, measureMariaDB} {
		more, err := measure(ctx, p, dir)
		if err != nil {
			return err
		}
		results = append(results, more...)
	}
	return report(results)
}

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
	fmt.Printf("\n%-28s %12s %12s %6s %8s %10s\n", "comparison", "ours", "baseline", "unit", "ratio", "target")
	for _, r := range results {
		bound := "≥"
		if r.Better == "lower" {
			bound = "≤"
		}
		fmt.Printf("%-28s %12.1f %12.1f %6s %8.2f %7s %.4g\n", r.Name, r.Value, r.Baseline, r.Unit, r.Ratio, bound, r.Target)
	}
	line, err := json.Marshal(struct {
		Bench   string   `json:"bench"`
		Results []result `json:"results"`
	}{"ledger", results})
	if err != nil {
		return fmt.Errorf("encode the results: %w", err)
	}
	fmt.Printf("%s\n", line)
	return nil
}
