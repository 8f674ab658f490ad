// Command gateway measures what the inference gateway of account 3 costs: with
// everything on (keys, ownership, routing, metrics, evidence) against a bare
// httputil.ReverseProxy, each in a process of its own, in rounds that
// alternate between the two. It compares CPU time as the kernel counts it,
// because wall times and tail latencies cannot be judged on shared cores.
//
//	go run ./bench/gateway [--quick]
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"text/tabwriter"
)

func main() {
	quick := flag.Bool("quick", false, "fewer and shorter rounds, under a minute")
	only := flag.String("only", "", "run only the named measurement")
	serve := flag.String("serve", "", "internal: be the \"gateway\" or the \"proxy\"")
	engine := flag.String("engine", "", "internal: address of the mock engine")
	profile := flag.String("profile", "", "write the gateway's CPU profile to this file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if *serve != "" {
		err = serveSide(ctx, *serve, *engine, *profile)
	} else {
		err = compare(ctx, *quick, *only, *profile)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/gateway:", err)
		os.Exit(1)
	}
}

// compare runs every measurement on both sides in alternating rounds.
func compare(ctx context.Context, quick bool, only, profile string) error {
	engine, err := startEngine()
	if err != nil {
		return err
	}
	defer func() { _ = engine.Close() }()
	pin(0, clientCore)
	var results []result
	for _, m := range measurements(quick) {
		if only != "" && only != m.name {
			continue
		}
		r, err := measureFresh(ctx, m, engine.address, profile)
		if err != nil {
			return fmt.Errorf("measure %s: %w", m.name, err)
		}
		results = append(results, r)
	}
	return report(results)
}

// measureFresh gives each measurement new processes: what one leaves in the
// heap must not show in the next.
func measureFresh(ctx context.Context, m measurement, engine, profile string) (result, error) {
	sides := make([]*side, 0, 2)
	for _, name := range []string{"proxy", "gateway"} {
		s, err := startSide(ctx, name, engine, profile)
		if err != nil {
			return result{}, err
		}
		defer s.stop()
		sides = append(sides, s)
	}
	return measure(ctx, m, sides)
}

// measure takes the median over the rounds; one round more than counted warms
// both sides up.
func measure(ctx context.Context, m measurement, sides []*side) (result, error) {
	values := make([][]float64, len(sides))
	for round := range m.rounds + 1 {
		for i := range sides {
			n := (i + round) % len(sides) // who begins changes with the round
			v, err := m.run(ctx, sides[n])
			if err != nil {
				return result{}, fmt.Errorf("%s, round %d: %w", sides[n].name, round, err)
			}
			if round > 0 {
				values[n] = append(values[n], v)
			}
		}
	}
	ratios := make([]float64, m.rounds)
	for i := range ratios {
		ratios[i] = values[1][i] / values[0][i]
	}
	return result{
		Name: m.name, Value: median(values[1]), Unit: m.unit, Baseline: median(values[0]),
		Ratio: median(ratios), Target: m.target, Better: "lower",
	}, nil
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// result is one line of the report; Target bounds the ratio.
type result struct {
	Name     string  `json:"name"`
	Value    float64 `json:"value"`
	Unit     string  `json:"unit"`
	Baseline float64 `json:"baseline"`
	Ratio    float64 `json:"ratio"`
	Target   float64 `json:"target"`
	Better   string  `json:"better"`
}

func report(results []result) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "measurement\tReverseProxy\tModelDock\tunit\tratio\ttarget\t")
	for i, r := range results {
		_, _ = fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%s\t%.2f\t≤ %.2f\t\n", r.Name, r.Baseline, r.Value, r.Unit, r.Ratio, r.Target)
		results[i].Value, results[i].Baseline, results[i].Ratio = round3(r.Value), round3(r.Baseline), round3(r.Ratio)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	line, err := json.Marshal(map[string]any{"bench": "gateway", "results": results})
	if err != nil {
		return err
	}
	fmt.Println(string(line))
	return nil
}

func round3(v float64) float64 { return float64(int64(v*1000+0.5)) / 1000 }
