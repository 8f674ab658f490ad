package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // the same driver as the ledger's

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
	"modeldock.io/internal/modelspec"
)

const submitters = 64

// rate is what one side did in one round.
type rate struct{ perSecond, cpuMicros float64 }

func perSecond(r rate) float64 { return r.perSecond }
func cpuMicros(r rate) float64 { return r.cpuMicros }

// measureSubmits lets 64 submitters work in a closed loop, in turn against
// the ledger and against plain inserts that commit one row each; then once
// more with 1 ms added to every commit, as real disks have.
func measureSubmits(ctx context.Context, p plan, dir string) ([]result, error) {
	grouped, raw, err := submitRounds(ctx, p, dir, 0)
	if err != nil {
		return nil, err
	}
	slowGrouped, slowRaw, err := submitRounds(ctx, p, dir, time.Millisecond)
	if err != nil {
		return nil, err
	}
	return []result{
		compare("submit_64_sqlite", "1/s", grouped, raw, perSecond, 3, "higher"),
		compare("submit_64_sqlite_cpu", "µs", grouped, raw, cpuMicros, 0.5, "lower"),
		compare("submit_64_sqlite_1ms_flush", "1/s", slowGrouped, slowRaw, perSecond, 8, "higher"),
	}, nil
}

func submitRounds(ctx context.Context, p plan, dir string, flush time.Duration) (grouped, raw []rate, err error) {
	for round := range p.rounds {
		name := fmt.Sprintf("%s-%d", flush, round)
		r, err := rawRound(ctx, p, filepath.Join(dir, "raw-"+name), flush)
		if err != nil {
			return nil, nil, fmt.Errorf("one commit per row: %w", err)
		}
		g, err := groupedRound(ctx, p, filepath.Join(dir, "grouped-"+name), flush)
		if err != nil {
			return nil, nil, fmt.Errorf("grouped commits: %w", err)
		}
		fmt.Printf("submit round %d, flush +%s: grouped %.0f/s %.0f µs CPU, one per commit %.0f/s %.0f µs CPU\n",
			round+1, flush, g.perSecond, g.cpuMicros, r.perSecond, r.cpuMicros)
		grouped, raw = append(grouped, g), append(raw, r)
	}
	return grouped, raw, nil
}

// ledger opens a fresh ledger with ample slots for the given tenants.
func ledger(ctx context.Context, path string, tenants int) (*sqlledger.Ledger, error) {
	return ledgerWith(ctx, path, tenants, sqlledger.Options{})
}

func ledgerWith(ctx context.Context, path string, tenants int, opts sqlledger.Options) (*sqlledger.Ledger, error) {
	l, err := sqlledger.OpenSQLite(ctx, path, opts)
	if err != nil {
		return nil, err
	}
	return furnished(ctx, l, tenants)
}

// furnished gives a ledger ample slots.
func furnished(ctx context.Context, l *sqlledger.Ledger, tenants int) (*sqlledger.Ledger, error) {
	if _, err := l.SetPool(ctx, budget.DefaultPool, budget.MaxCap); err != nil {
		return nil, err
	}
	for i := range tenants {
		if _, err := l.SetQuota(ctx, tenantName(i), budget.MaxCap); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func tenantName(i int) string { return fmt.Sprintf("team-%04d", i) }

func submission(n int64) budget.Submission {
	id := fmt.Sprintf("request-%d", n)
	return budget.Submission{
		Ref: budget.Ref{Tenant: tenantName(int(n % submitters)), ID: id}, Cost: 1, Priority: int(n % 100),
		Pool: budget.DefaultPool, TTL: budget.DefaultTTL, Model: modelspec.Default(id),
	}
}

func groupedRound(ctx context.Context, p plan, path string, flush time.Duration) (rate, error) {
	l, err := ledgerWith(ctx, path, submitters, sqlledger.Options{BeforeStatement: func(statement string) error {
		if statement == "COMMIT" {
			time.Sleep(flush)
		}
		return nil
	}})
	if err != nil {
		return rate{}, err
	}
	defer func() { _ = l.Close() }()
	return submitLoop(ctx, p, l)
}

func submitLoop(ctx context.Context, p plan, l *sqlledger.Ledger) (rate, error) {
	return closedLoop(p.window, func(n int64) error {
		_, err := l.Submit(ctx, submission(n))
		return err
	})
}

// rawRound inserts the same rows into a file with the same schema, each by
// its own durable commit: what a handler does that writes by itself.
func rawRound(ctx context.Context, p plan, path string, flush time.Duration) (rate, error) {
	l, err := ledger(ctx, path, submitters)
	if err != nil {
		return rate{}, err
	}
	if err := l.Close(); err != nil {
		return rate{}, err
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(15000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=foreign_keys(1)")
	if err != nil {
		return rate{}, err
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1) // SQLite has one writer; more connections only wait for each other
	insert, err := db.PrepareContext(ctx, `INSERT INTO reservation
		(tenant, id, cost, priority, need, model_name, model_version, spec, spec_hash, pool, created_at, expires_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
	if err != nil {
		return rate{}, err
	}
	defer func() { _ = insert.Close() }()
	var device sync.Mutex
	return closedLoop(p.window, func(n int64) error {
		s := submission(n)
		spec, err := json.Marshal(s.Model)
		if err != nil {
			return err
		}
		now := time.Now()
		if flush > 0 {
			device.Lock() // one commit at a time, each with its own flush
			defer device.Unlock()
			time.Sleep(flush)
		}
		_, err = insert.ExecContext(ctx, s.Tenant, s.ID, s.Cost, s.Priority, s.Need(), s.Model.Name, s.Model.Version,
			spec, s.Hash(), s.Pool, now.UnixMicro(), now.Add(s.TTL).UnixMicro())
		return err
	})
}

// closedLoop runs the submitters for a while: each begins its next when the
// last one was answered.
func closedLoop(window time.Duration, do func(n int64) error) (rate, error) {
	var next, done atomic.Int64
	var failure atomic.Pointer[error]
	var all sync.WaitGroup
	start, cpu := time.Now(), cpuTime()
	for range submitters {
		all.Go(func() {
			for time.Since(start) < window && failure.Load() == nil {
				if err := do(next.Add(1)); err != nil {
					failure.Store(&err)
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	elapsed, used := time.Since(start), cpuTime()-cpu
	if err := failure.Load(); err != nil {
		return rate{}, *err
	}
	n := float64(done.Load())
	return rate{perSecond: n / elapsed.Seconds(), cpuMicros: float64(used.Microseconds()) / n}, nil
}

// cpuTime is what the kernel counted for this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
