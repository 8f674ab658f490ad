package main

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
)

const queueTenants = 1000

// measureSelection asks what the length of the queue costs: admitting one
// request from a short and a long queue, from one whose tenants are nearly
// all full, from one beside a tenant whose requests do not fit, and how long a
// freed slot stays empty.
func measureSelection(ctx context.Context, p plan, dir string) ([]result, error) {
	times := map[string]float64{}
	for _, c := range p.queues() {
		took, err := pickRound(ctx, p, filepath.Join(dir, "pick-"+c.name), c.waiting, c.full)
		if err != nil {
			return nil, fmt.Errorf("pick from the %s queue: %w", c.name, err)
		}
		fmt.Printf("pick: %d waiting, %d of %d tenants full: %.2f ms\n", c.waiting, c.full, queueTenants, took)
		times[c.name] = took
	}
	took, err := besideUnfit(ctx, p, filepath.Join(dir, "pick-unfit"))
	if err != nil {
		return nil, fmt.Errorf("pick beside requests that do not fit: %w", err)
	}
	fmt.Printf("pick: %d waiting, and %d of a tenant with too few slots for each: %.2f ms\n", p.waiting[0], mostUnfit, took)
	times["unfit"] = took
	freed, err := freedRound(ctx, p, filepath.Join(dir, "freed"))
	if err != nil {
		return nil, fmt.Errorf("freed slots: %w", err)
	}
	return append(selectionResults("", p, times, freed), pickRatio("pick_beside_unfit", times, "unfit", p.waiting[0])), nil
}

// mostUnfit is how many requests of one tenant may wait.
var mostUnfit = budget.DefaultBounds().Waiting

// besideUnfit is pickRound from the shortest queue beside as many requests as
// one tenant may have, with too few free slots for each.
func besideUnfit(ctx context.Context, p plan, path string) (float64, error) {
	l, err := queued(ctx, path, p.waiting[0], 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	if _, err := l.SetQuota(ctx, "unfit", 2); err != nil {
		return 0, err
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(15000)")
	if err != nil {
		return 0, err
	}
	defer func() { _ = db.Close() }()
	now := time.Now().UnixMicro()
	if _, err := db.ExecContext(ctx, `
		WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?)
		INSERT INTO reservation (tenant, id, cost, priority, need, model_name, model_version, spec, spec_hash, pool, created_at, expires_at)
		SELECT 'unfit', 'u' || i, 3, 50, 3, 'u' || i, 'v1', CAST('{}' AS BLOB), '', 'default', ?, ? FROM n`,
		mostUnfit, now, now+int64(budget.DefaultTTL/time.Microsecond)); err != nil {
		return 0, err
	}
	return pickAll(ctx, p, l)
}

// queue is a queue's length and how many of its tenants have no free slots.
type queue struct {
	name          string
	waiting, full int
}

// queues are open ones of every length, and the longest with nearly all full.
func (p plan) queues() []queue {
	var all []queue
	for _, n := range p.waiting {
		all = append(all, queue{fmt.Sprint(n), n, 0})
	}
	return append(all, queue{"full", p.longest(), queueTenants - 10})
}

func (p plan) longest() int { return p.waiting[len(p.waiting)-1] }

// selectionResults compares long with short and full with open queues.
func selectionResults(suffix string, p plan, times map[string]float64, freed float64) []result {
	var results []result
	for _, n := range p.waiting[1:] {
		results = append(results, pickRatio(fmt.Sprintf("pick_%dk_waiting%s", n/1000, suffix), times, fmt.Sprint(n), p.waiting[0]))
	}
	return append(results,
		pickRatio("pick_tenants_full"+suffix, times, "full", p.longest()),
		result{Name: "freed_to_reserved_p99" + suffix, Value: freed, Unit: "ms", Target: 50, Better: "lower"},
	)
}

// pickRatio compares the time of one queue with that of the open one of length to.
func pickRatio(name string, times map[string]float64, of string, to int) result {
	base := times[fmt.Sprint(to)]
	return result{Name: name, Value: times[of], Unit: "ms", Baseline: base, Ratio: times[of] / base, Target: 3, Better: "lower"}
}

// queued opens a ledger with a long queue that was written in one go; the
// quotas of the first full tenants are 0.
func queued(ctx context.Context, path string, waiting, full int) (*sqlledger.Ledger, error) {
	l, err := ledger(ctx, path, queueTenants)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(15000)")
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	now := time.Now().UnixMicro()
	// Full tenants own the best places of the queue: the worst case.
	_, err = db.ExecContext(ctx, `
		WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?)
		INSERT INTO reservation (tenant, id, cost, priority, need, model_name, model_version, spec, spec_hash, pool, created_at, expires_at)
		SELECT printf('team-%04d', i % ?), 'q' || i, 1, CASE WHEN i % ? < ? THEN 90 ELSE 10 END, 1, 'q' || i, 'v1', CAST('{}' AS BLOB), '', 'default', ?, ? FROM n`,
		waiting, queueTenants, queueTenants, full, now, now+int64(budget.DefaultTTL/time.Microsecond))
	if err == nil {
		_, err = db.ExecContext(ctx, `UPDATE tenant_quota SET cap = used WHERE tenant < printf('team-%04d', ?)`, full)
	}
	return l, err
}

// pickRound is the median time of admitting one request, in milliseconds.
func pickRound(ctx context.Context, p plan, path string, waiting, full int) (float64, error) {
	l, err := queued(ctx, path, waiting, full)
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return pickAll(ctx, p, l)
}

func pickAll(ctx context.Context, p plan, l *sqlledger.Ledger) (float64, error) {
	var times []float64
	for range 20 * p.rounds {
		start := time.Now()
		got, err := l.Admit(ctx, 1)
		if err != nil || len(got) != 1 {
			return 0, fmt.Errorf("admitted %d: %w", len(got), err)
		}
		times = append(times, milliseconds(start))
	}
	return median(times), nil
}

// freedRound frees slots of a full pool one by one in front of 10 000 waiting
// requests and takes the 99th percentile of the time until the next is reserved.
func freedRound(ctx context.Context, p plan, path string) (float64, error) {
	l, err := queued(ctx, path, 10_000, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return freeAll(ctx, p, l)
}

func freeAll(ctx context.Context, p plan, l *sqlledger.Ledger) (float64, error) {
	if _, err := l.SetPool(ctx, budget.DefaultPool, int64(p.releases)); err != nil {
		return 0, err
	}
	held, err := l.Admit(ctx, p.releases)
	if err != nil {
		return 0, err
	}
	var times []float64
	for _, r := range held {
		if _, err := l.RequestRelease(ctx, r.Ref); err != nil {
			return 0, err
		}
		if _, err := l.Credit(ctx, r.Ref, true); err != nil {
			return 0, err
		}
		start := time.Now()
		got, err := l.Admit(ctx, 0)
		if err != nil || len(got) != 1 {
			return 0, fmt.Errorf("admitted %d into one freed slot: %w", len(got), err)
		}
		times = append(times, milliseconds(start))
	}
	return quantile(times, 0.99), nil
}

func milliseconds(since time.Time) float64 { return float64(time.Since(since).Microseconds()) / 1000 }
