package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql" // the same driver as the ledger's

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
	"modeldock.io/test/mariadb"
)

// measureMariaDB measures the same on a private server with full durability;
// where MariaDB is not installed it says so and measures nothing.
func measureMariaDB(ctx context.Context, p plan, dir string) (results []result, err error) {
	server, err := mariadb.Start(ctx, dir)
	if errors.Is(err, mariadb.ErrNotInstalled) {
		fmt.Println("MariaDB is not installed: not measured")
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m := onMariaDB{server}
	for _, measure := range []func(context.Context, plan) ([]result, error){m.submits, m.admissions, m.selection} {
		var more []result
		if more, err = measure(ctx, p); err != nil {
			return nil, errors.Join(fmt.Errorf("MariaDB: %w", err), server.Stop())
		}
		results = append(results, more...)
	}
	if err := server.Stop(); err != nil {
		return nil, err
	}
	slow, err := measureSlowMariaDB(ctx, p, dir)
	return append(results, slow...), err
}

// measureSlowMariaDB measures submits once more where every flush takes 1 ms
// longer; without a C compiler it says so and measures nothing.
func measureSlowMariaDB(ctx context.Context, p plan, dir string) (_ []result, err error) {
	preload, err := buildSlowFlush(ctx, dir)
	if err != nil {
		return nil, err
	}
	if preload == "" {
		fmt.Println("there is no C compiler: MariaDB with 1 ms flushes is not measured")
		return nil, nil
	}
	server, err := mariadb.StartWith(ctx, dir, preload)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	ours, alone, err := onMariaDB{server}.submitRounds(ctx, p, "+1 ms")
	if err != nil {
		return nil, fmt.Errorf("MariaDB with 1 ms flushes: %w", err)
	}
	return []result{
		compare("submit_64_mariadb_1ms", "1/s", ours, alone, perSecond, 1.2, "higher"),
		compare("submit_64_mariadb_1ms_cpu", "µs", ours, alone, cpuMicros, 0.2, "lower"),
	}, nil
}

type onMariaDB struct{ *mariadb.Server }

// ledger opens a ledger in a database of its own; drop closes and removes it.
func (m onMariaDB) ledger(ctx context.Context, tenants int) (l *sqlledger.Ledger, dsn string, drop func(), err error) {
	name, dropDatabase, err := m.Create(ctx)
	if err != nil {
		return nil, "", nil, err
	}
	l, err = sqlledger.OpenMySQL(ctx, m.DSN(name), sqlledger.Options{})
	if err == nil {
		l, err = furnished(ctx, l, tenants)
	}
	return l, m.DSN(name), func() { _, _ = l.Close(), dropDatabase() }, err
}

// submits compares the ledger with 64 connections that commit alone, by rate
// and by what the server computes for one row.
func (m onMariaDB) submits(ctx context.Context, p plan) ([]result, error) {
	ours, alone, err := m.submitRounds(ctx, p, "+0")
	if err != nil {
		return nil, err
	}
	return []result{
		compare("submit_64_mariadb", "1/s", ours, alone, perSecond, 1.2, "higher"),
		compare("submit_64_mariadb_server_cpu", "µs", ours, alone, cpuMicros, 0.2, "lower"),
	}, nil
}

func (m onMariaDB) submitRounds(ctx context.Context, p plan, flush string) (ours, alone []rate, err error) {
	for round := range p.rounds {
		a, err := m.aloneRound(ctx, p)
		if err != nil {
			return nil, nil, fmt.Errorf("one commit per row: %w", err)
		}
		o, err := m.groupedRound(ctx, p)
		if err != nil {
			return nil, nil, fmt.Errorf("grouped commits: %w", err)
		}
		fmt.Printf("MariaDB submit round %d, flush %s: ours %.0f/s %.0f µs server CPU, %d connections %.0f/s %.0f µs server CPU\n",
			round+1, flush, o.perSecond, o.cpuMicros, submitters, a.perSecond, a.cpuMicros)
		ours, alone = append(ours, o), append(alone, a)
	}
	return ours, alone, nil
}

func (m onMariaDB) groupedRound(ctx context.Context, p plan) (rate, error) {
	l, _, drop, err := m.ledger(ctx, submitters)
	if err != nil {
		return rate{}, err
	}
	defer drop()
	return m.watched(func() (rate, error) { return submitLoop(ctx, p, l) })
}

// aloneRound inserts the same rows as a handler does that writes by itself.
func (m onMariaDB) aloneRound(ctx context.Context, p plan) (rate, error) {
	_, dsn, drop, err := m.ledger(ctx, submitters)
	if err != nil {
		return rate{}, err
	}
	defer drop()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return rate{}, err
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(submitters)
	db.SetMaxIdleConns(submitters)
	insert, err := db.PrepareContext(ctx, `INSERT INTO reservation
		(tenant, id, cost, priority, need, model_name, model_version, spec, spec_hash, pool, created_at, expires_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
	if err != nil {
		return rate{}, err
	}
	defer func() { _ = insert.Close() }()
	return m.watched(func() (rate, error) {
		return closedLoop(p.window, func(n int64) error {
			s := submission(n)
			spec, err := json.Marshal(s.Model)
			if err != nil {
				return err
			}
			now := time.Now()
			_, err = insert.ExecContext(ctx, s.Tenant, s.ID, s.Cost, s.Priority, s.Need(), s.Model.Name, s.Model.Version,
				spec, s.Hash(), s.Pool, now.UnixMicro(), now.Add(s.TTL).UnixMicro())
			return err
		})
	})
}

// watched puts the server's CPU time in the place of this process's.
func (m onMariaDB) watched(run func() (rate, error)) (rate, error) {
	before, err := processTime(m.PID())
	if err != nil {
		return rate{}, err
	}
	start := time.Now()
	r, err := run()
	if err != nil {
		return r, err
	}
	elapsed := time.Since(start)
	after, err := processTime(m.PID())
	r.cpuMicros = float64((after - before).Microseconds()) / (r.perSecond * elapsed.Seconds())
	return r, err
}

// processTime is what Linux counted for a process, in its ticks of 10 ms.
func processTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read the server's CPU time: %w", err)
	}
	_, behindName, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(behindName)
	var ticks int64
	for _, i := range []int{11, 12} { // utime, stime
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the server's CPU time: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

func (m onMariaDB) admissions(ctx context.Context, p plan) ([]result, error) {
	var sets, singles []float64
	for round := range p.rounds {
		var pair [2]float64
		for i, size := range []int{1, setSize} {
			l, _, drop, err := m.ledger(ctx, submitters)
			if err != nil {
				return nil, err
			}
			pair[i], err = admitAll(ctx, p, l, size)
			drop()
			if err != nil {
				return nil, err
			}
		}
		fmt.Printf("MariaDB admit round %d: sets of %d %.0f/s, one per commit %.0f/s\n", round+1, setSize, pair[1], pair[0])
		singles, sets = append(singles, pair[0]), append(sets, pair[1])
	}
	return []result{compare("admit_sets_mariadb", "1/s", sets, singles, itself, 3, "higher")}, nil
}

func (m onMariaDB) selection(ctx context.Context, p plan) ([]result, error) {
	times := map[string]float64{}
	for _, c := range p.queues() {
		l, drop, err := m.queued(ctx, c.waiting, c.full)
		if err != nil {
			return nil, err
		}
		times[c.name], err = pickAll(ctx, p, l)
		drop()
		if err != nil {
			return nil, fmt.Errorf("pick from the %s queue: %w", c.name, err)
		}
		fmt.Printf("MariaDB pick: %d waiting, %d of %d tenants full: %.2f ms\n", c.waiting, c.full, queueTenants, times[c.name])
	}
	l, drop, err := m.queued(ctx, 10_000, 0)
	if err != nil {
		return nil, err
	}
	defer drop()
	freed, err := freeAll(ctx, p, l)
	if err != nil {
		return nil, fmt.Errorf("freed slots: %w", err)
	}
	return selectionResults("_mariadb", p, times, freed), nil
}

// queued opens a ledger with a long queue that was written in one go, see queued.
func (m onMariaDB) queued(ctx context.Context, waiting, full int) (*sqlledger.Ledger, func(), error) {
	l, dsn, drop, err := m.ledger(ctx, queueTenants)
	if err != nil {
		return nil, nil, err
	}
	db, err := sql.Open("mysql", dsn+"?interpolateParams=true")
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = db.Close() }()
	now := time.Now().UnixMicro()
	_, err = db.ExecContext(ctx, fmt.Sprintf(`
		INSERT INTO reservation (tenant, id, cost, priority, need, model_name, model_version, spec, spec_hash, pool, created_at, expires_at)
		SELECT CONCAT('team-', LPAD(seq %% ?, 4, '0')), CONCAT('q', seq), 1, IF(seq %% ? < ?, 90, 10), 1, CONCAT('q', seq), 'v1', '{}', '', 'default', ?, ? FROM seq_0_to_%d`, waiting-1),
		queueTenants, queueTenants, full, now, now+int64(budget.DefaultTTL/time.Microsecond))
	if err == nil {
		_, err = db.ExecContext(ctx, `UPDATE tenant_quota SET cap = used WHERE tenant < CONCAT('team-', LPAD(?, 4, '0'))`, full)
	}
	return l, drop, err
}
