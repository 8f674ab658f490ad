// Command gateway measures what the inference gateway of account 3 costs: with
// everything on (keys, ownership, routing, metrics, evidence) against a bare
// httputil.ReverseProxy and, with --peers, against nginx and Portkey's gateway,
// each in a process of its own, in rounds that alternate between them. It
// compares CPU time as the kernel counts it, because wall times and tail
// latencies cannot be judged on shared cores.
//
//	go run ./bench/gateway [--quick] [--peers] [--only NAME,…]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
)

func main() {
	var o options
	flag.BoolVar(&o.quick, "quick", false, "fewer and shorter rounds, under a minute")
	flag.BoolVar(&o.peers, "peers", false, "measure nginx and Portkey too, where they are installed; run it in the repository's root")
	only := flag.String("only", "", "run only the named measurements, separated by commas")
	serve := flag.String("serve", "", "internal: be one of the servers")
	engine := flag.String("engine", "", "internal: address of the mock engine")
	flag.StringVar(&o.profile, "profile", "", "write the gateway's CPU profile to this file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if *serve != "" {
		err = serveSide(ctx, *serve, *engine, o.profile)
	} else {
		if *only != "" {
			o.only = strings.Split(*only, ",")
		}
		err = compare(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/gateway:", err)
		os.Exit(1)
	}
}

type options struct {
	quick, peers bool
	only         []string // empty: all
	profile      string
}

// compare runs every measurement on all sides in alternating rounds.
func compare(ctx context.Context, o options) error {
	engine, err := startEngine()
	if err != nil {
		return err
	}
	defer func() { _ = engine.Close() }()
	pin(0, clientCore)
	r := report{skipped: map[string]string{}}
	for _, m := range measurements(o.quick, engine) {
		if len(o.only) > 0 && !slices.Contains(o.only, m.name) {
			continue
		}
		if err := measureFresh(ctx, m, engine, o, &r); err != nil {
			return fmt.Errorf("measure %s: %w", m.name, err)
		}
	}
	return r.print()
}

// measureFresh gives each measurement new processes: what one leaves in the
// heap must not show in the next.
func measureFresh(ctx context.Context, m measurement, e *engine, o options, r *report) error {
	var sides []*side
	defer func() {
		for _, s := range sides {
			s.stop()
		}
	}()
	for _, name := range []string{proxyName, gatewayName} {
		s, err := startOwn(ctx, name, e.address, o.profile)
		if err != nil {
			return err
		}
		sides = append(sides, s)
	}
	for _, p := range peers() {
		if !o.peers {
			r.skipped[p.name] = "it is measured with --peers"
			continue
		}
		s, err := p.start(ctx, e.address)
		if errors.Is(err, errAbsent) {
			r.skipped[p.name] = err.Error()
			continue
		}
		if err != nil {
			return err
		}
		sides = append(sides, s)
	}
	if m.direct {
		sides = append(sides, &side{name: directName, address: e.address, share: 1})
	}
	values, err := m.measure(ctx, sides)
	if err != nil {
		return err
	}
	r.add(m, sides, values)
	return nil
}

// directName is the engine itself.
const directName = "direct"

// measure returns each side's values by round; one round more than counted
// warms all sides up.
func (m measurement) measure(ctx context.Context, sides []*side) ([][]float64, error) {
	values := make([][]float64, len(sides))
	for round := range m.rounds + 1 {
		for i := range sides {
			n := (i + round) % len(sides) // who begins changes with the round
			v, err := m.run(ctx, sides[n])
			if err != nil {
				return nil, fmt.Errorf("%s, round %d: %w", sides[n].name, round, err)
			}
			if round > 0 {
				values[n] = append(values[n], v)
			}
		}
	}
	if m.direct {
		own := values[len(values)-1]
		for _, v := range values[:len(values)-1] {
			for round := range v {
				v[round] -= own[round]
			}
		}
	}
	return values, nil
}
