package local

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"modeldock.io/internal/delivery/local/procfs"
	"modeldock.io/internal/delivery/local/supervise"
)

const (
	sweepTerm = 500 * time.Millisecond // between SIGTERM and SIGKILL for leftovers
	sweepLook = 20 * time.Millisecond
	sweepMost = 20 * time.Second
)

// Sweep ends everything that an earlier run of ModelDock on this data
// directory left behind. A process is ours if its environment carries a run id
// of this data directory, or if its pid and start time were recorded by us in
// this boot. Nobody else is signalled.
func (s *runStore) Sweep(ctx context.Context, log *slog.Logger) error {
	known := s.load(log)
	ours := func(p procfs.Process) bool {
		return known[processID{p.PID, p.StartTicks}] || strings.HasPrefix(procfs.Env(p.PID, supervise.RunIDVariable), s.identity+".")
	}
	if err := sweep(ctx, ours, sweepTerm, log); err != nil {
		return err
	}
	s.clear()
	return nil
}

// SweepRun ends what is left of one run whose supervisor was killed. It
// returns when nothing is left, however long that takes: until then the
// replica's cards are not free.
func (s *runStore) SweepRun(uid string, proc *supervise.Process, log *slog.Logger) {
	ours := func(p procfs.Process) bool {
		return procfs.Env(p.PID, supervise.RunIDVariable) == s.ID(uid) ||
			(p.PID == proc.Model.PID && p.StartTicks == proc.Model.StartTicks)
	}
	for {
		err := sweep(context.Background(), ours, 0, log)
		if err == nil {
			return
		}
		log.Error("processes of a killed replica do not end; trying again", "replica", uid, "err", err)
	}
}

// sweep signals every process that is ours until none is left.
func sweep(ctx context.Context, ours func(procfs.Process) bool, term time.Duration, log *slog.Logger) error {
	began := time.Now()
	signal := unix.SIGTERM
	told := map[int]unix.Signal{}
	for {
		left, err := matching(ours)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			return nil
		}
		if time.Since(began) >= term {
			signal = unix.SIGKILL
		}
		for _, p := range left {
			if told[p.PID] == signal {
				continue
			}
			told[p.PID] = signal
			log.Info("ending a leftover process", "pid", p.PID, "signal", signal.String())
			signalExactly(p, ours, signal)
		}
		if time.Since(began) > sweepMost {
			return fmt.Errorf("%d processes do not end %s after SIGKILL, the first is pid %d: they hold their memory; end them, or restart the machine", len(left), sweepMost, left[0].PID)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(sweepLook):
		}
	}
}

// matching lists the living processes that are ours, without ourselves and
// our ancestors: ModelDock may itself have been started below a model.
func matching(ours func(procfs.Process) bool) ([]procfs.Process, error) {
	table, err := procfs.Table()
	if err != nil {
		return nil, err
	}
	spared := map[int]bool{}
	for pid := os.Getpid(); pid > 1 && !spared[pid]; pid = table[pid].PPID {
		spared[pid] = true
	}
	var out []procfs.Process
	for _, p := range table {
		if p.PID > 1 && !spared[p.PID] && !p.Zombie() && ours(p) {
			out = append(out, p)
		}
	}
	return out, nil
}

// signalExactly holds on to the process before it looks again who it is, so
// that a pid that was given to somebody else meanwhile is not signalled.
func signalExactly(p procfs.Process, ours func(procfs.Process) bool, signal unix.Signal) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return // it is gone
	}
	defer func() { _ = unix.Close(fd) }()
	now, err := procfs.Stat(p.PID)
	if err != nil || now.StartTicks != p.StartTicks || !ours(now) {
		return
	}
	_ = unix.PidfdSendSignal(fd, signal, nil, 0) // looked at again in the next round
}
