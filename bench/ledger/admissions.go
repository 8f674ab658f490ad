package main

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"modeldock.io/internal/budget/sqlledger"
)

// setSize is how many admissions one commit takes when they are taken in sets.
const setSize = 32

// measureAdmissions admits the same queue twice: in sets, and one per commit.
func measureAdmissions(ctx context.Context, p plan, dir string) ([]result, error) {
	var sets, singles []float64
	for round := range p.rounds {
		single, err := admitRound(ctx, p, filepath.Join(dir, fmt.Sprint("single-", round)), 1)
		if err != nil {
			return nil, err
		}
		set, err := admitRound(ctx, p, filepath.Join(dir, fmt.Sprint("set-", round)), setSize)
		if err != nil {
			return nil, err
		}
		fmt.Printf("admit round %d: sets of %d %.0f/s, one per commit %.0f/s\n", round+1, setSize, set, single)
		sets, singles = append(sets, set), append(singles, single)
	}
	return []result{compare("admit_sets_sqlite", "1/s", sets, singles, itself, 1.5, "higher")}, nil
}

func admitRound(ctx context.Context, p plan, path string, size int) (perSecond float64, err error) {
	l, err := ledger(ctx, path, submitters)
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return admitAll(ctx, p, l, size)
}

// admitAll submits a queue and measures how fast it is admitted in sets of size.
func admitAll(ctx context.Context, p plan, l *sqlledger.Ledger, size int) (perSecond float64, err error) {
	if err := fill(ctx, l, p.admitted); err != nil {
		return 0, err
	}
	start, admitted := time.Now(), 0
	for admitted < p.admitted {
		got, err := l.Admit(ctx, size)
		if err != nil {
			return 0, fmt.Errorf("admit: %w", err)
		}
		if len(got) == 0 {
			return 0, fmt.Errorf("only %d of %d were admitted", admitted, p.admitted)
		}
		admitted += len(got)
	}
	perSecond = float64(admitted) / time.Since(start).Seconds()
	report, err := l.Verify(ctx)
	if err == nil && !report.Clean() {
		err = fmt.Errorf("drift after the run: %+v", report.Violations)
	}
	return perSecond, err
}

// fill submits n requests, many at a time.
func fill(ctx context.Context, l *sqlledger.Ledger, n int) error {
	errs := make(chan error, submitters)
	var all sync.WaitGroup
	for w := range submitters {
		all.Go(func() {
			for i := w; i < n; i += submitters {
				if _, err := l.Submit(ctx, submission(int64(i))); err != nil {
					errs <- fmt.Errorf("submit: %w", err)
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}
