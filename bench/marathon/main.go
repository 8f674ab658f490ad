// Command marathon runs a great number of random operations, from several
// clients at once, on each ledger, and says how many of them ended in an
// over-commit, a double credit or drift: the only good answer is none.
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
	"time"
)

func main() {
	operations := flag.Int64("operations", 1_000_000, "random operations on each ledger")
	stores := flag.String("stores", "sqlite,json,mariadb", "ledgers to run on")
	seed := flag.Uint64("seed", 1, "of the random choices")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, strings.Split(*stores, ","), *operations, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "bench/marathon:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, stores []string, operations int64, seed uint64) (err error) {
	dir, err := os.MkdirTemp("", "marathon-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	broken := false
	for _, name := range stores {
		s, err := openStore(ctx, name, dir)
		if err != nil {
			return err
		}
		began := time.Now()
		sum, err := s.marathon(ctx, operations, seed)
		if err = errors.Join(err, s.close()); err != nil {
			return fmt.Errorf("%s after %d operations: %w", name, sum.operations, err)
		}
		fmt.Printf("%s: %s in %s\n", name, sum, time.Since(began).Round(time.Second))
		for _, f := range sum.findings[:min(20, len(sum.findings))] {
			fmt.Println("  " + f)
		}
		broken = broken || len(sum.findings) > 0
	}
	if broken {
		return errors.New("the ledgers were made to lie")
	}
	return nil
}

// tally is what a marathon did and found.
type tally struct {
	operations, submitted, admitted, credited, grown, samples int64
	findings                                                  []string
}

func (t tally) String() string {
	return fmt.Sprintf("%d operations (%d new requests, %d admissions, %d growths, %d credits), verified %d times while they ran: %d violations",
		t.operations, t.submitted, t.admitted, t.grown, t.credited, t.samples, len(t.findings))
}

func (t *tally) add(o tally) {
	t.operations += o.operations
	t.submitted += o.submitted
	t.admitted += o.admitted
	t.credited += o.credited
	t.grown += o.grown
	t.samples += o.samples
	t.findings = slices.Concat(t.findings, o.findings)
}
