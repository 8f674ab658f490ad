// Command schedulerperf runs Kubernetes' own scheduler_perf (account 2): Pods
// per second of the stock scheduler, of ours with Pods that ask for no card, and
// of ours with Pods that each get memory on a card of one of 500 nodes with 8.
// Each run has an etcd, an API server and a scheduler of its own in one process,
// and the three take turns, so that a ratio compares neighbours in time.
//
//	cd bench/schedulerperf && CGO_ENABLED=0 go run . [--quick] [--rounds 5]
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
)

// Names of the workloads in performance-config.yaml.
const (
	stock = "SchedulingBasic"
	plain = "PlainPodsWithPlugin"
	cards = "CardPods"
)

// outcome is one run.
type outcome struct {
	podsPerSecond float64
	cpuSeconds    float64 // of everything in it but etcd, its start and end included
}

func main() {
	quick := flag.Bool("quick", false, "50 nodes and one round")
	rounds := flag.Int("rounds", 5, "how often each workload runs")
	binary := flag.String("test-binary", "", "compiled tests of this folder; default: they are compiled")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	size := "500Nodes"
	if *quick {
		size, *rounds = "quick", 1
	}
	if err := run(ctx, *binary, size, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "bench/schedulerperf:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, binary, size string, rounds int) error {
	dir, err := os.MkdirTemp("", "schedulerperf-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary folder's content
	if binary == "" {
		binary = filepath.Join(dir, "perf.test")
		build := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, ".")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("compile the tests: %w\n%s", err, out)
		}
	}
	etcd, err := findEtcd()
	if err != nil {
		return err
	}
	order := []string{stock, plain, cards}
	all := map[string][]outcome{}
	for round := range rounds {
		for _, workload := range order {
			o, err := measure(ctx, binary, etcd, dir, workload+"/"+size)
			if err != nil {
				return fmt.Errorf("run %s: %w", workload, err)
			}
			fmt.Printf("round %d: %-20s %6.1f Pods/s, %5.1f CPU seconds\n", round+1, workload, o.podsPerSecond, o.cpuSeconds)
			all[workload] = append(all[workload], o)
		}
		slices.Reverse(order) // whoever was last has its neighbour next
	}
	return report(all, size)
}

// findEtcd returns the folder of an etcd: that of the PATH, or the one that
// scripts/cluster-build.sh made.
func findEtcd() (string, error) {
	if path, err := exec.LookPath("etcd"); err == nil {
		return filepath.Dir(path), nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find etcd: %w", err)
	}
	found, err := filepath.Glob(filepath.Join(cache, "modeldock", "etcd-*", "etcd"))
	if err != nil || len(found) == 0 {
		return "", errors.New("there is no etcd: build it with scripts/cluster-build.sh etcd")
	}
	return filepath.Dir(found[len(found)-1]), nil
}

var throughput = regexp.MustCompile(`([0-9.e+]+) SchedulingThroughput/Average`)

// measure runs one workload in a process of its own.
func measure(ctx context.Context, binary, etcd, dir, workload string) (outcome, error) {
	cmd := exec.CommandContext(ctx, binary, "-test.run=^$", "-test.bench=^BenchmarkPerfScheduling$/^"+filepath.Dir(workload)+"$/^"+filepath.Base(workload)+"$", "-test.benchtime=1x", "-data-items-dir="+dir)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = append(os.Environ(), "PATH="+etcd+string(filepath.ListSeparator)+os.Getenv("PATH"), "TMPDIR="+dir)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return outcome{}, fmt.Errorf("%w\n%s\n%s", err, tail(stdout.String()), tail(stderr.String()))
	}
	found := throughput.FindStringSubmatch(stdout.String())
	if found == nil {
		return outcome{}, fmt.Errorf("it tells no throughput:\n%s\n%s", tail(stdout.String()), tail(stderr.String()))
	}
	rate, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		return outcome{}, fmt.Errorf("read the throughput: %w", err)
	}
	return outcome{rate, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()}, nil
}

func tail(text string) string { return text[max(0, len(text)-4000):] }

// report prints medians; a ratio is the median of the rounds' own ratios.
func report(all map[string][]outcome, size string) error {
	var results []map[string]any
	fmt.Printf("\n%-28s %10s %10s %8s %10s\n", "comparison, "+size, "ours", "stock", "ratio", "target")
	compare := func(name, unit, workload string, of func(outcome) float64, target float64, better string) {
		var ours, base, ratios []float64
		for i, o := range all[workload] {
			ours, base = append(ours, of(o)), append(base, of(all[stock][i]))
			ratios = append(ratios, of(o)/of(all[stock][i]))
		}
		sign := "≥"
		if better == "lower" {
			sign = "≤"
		}
		fmt.Printf("%-28s %10.1f %10.1f %8.3f %6s %4.2f\n", name, median(ours), median(base), median(ratios), sign, target)
		results = append(results, map[string]any{
			"name": name, "value": median(ours), "unit": unit, "baseline": median(base), "ratio": median(ratios), "target": target, "better": better,
		})
	}
	rate, cpu := func(o outcome) float64 { return o.podsPerSecond }, func(o outcome) float64 { return o.cpuSeconds }
	compare("plain_pods", "1/s", plain, rate, 0.95, "higher")
	compare("card_pods", "1/s", cards, rate, 0.85, "higher")
	compare("plain_pods_cpu", "s", plain, cpu, 1.05, "lower")
	compare("card_pods_cpu", "s", cards, cpu, 1.15, "lower")
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"bench": "schedulerperf", "results": results})
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
