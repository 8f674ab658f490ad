package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/engine"
	"modeldock.io/internal/delivery/local/supervise"
	"modeldock.io/internal/modelspec"
)

// launch prepares a replica's directory, weights and port and starts its
// process under a supervisor.
func (t *Target) launch(ctx context.Context, r *run) (launched, error) {
	m := r.rec.Model
	preset, err := engine.For(m.Engine)
	if err != nil {
		return launched{}, err
	}
	// 1. Who it runs as, and where.
	who, err := t.userFor(r.rec)
	if err != nil {
		return launched{}, err
	}
	work, err := t.scratch.Work(who, r.object)
	if err != nil {
		return launched{}, err
	}
	weights, err := t.weights(ctx, who, m)
	if err != nil {
		return launched{}, err
	}
	// 2. What it runs.
	port, err := t.freePort(ctx)
	if err != nil {
		return launched{}, err
	}
	plan, err := preset.Plan(m, engine.Place{
		Executable: t.cfg.Executable, Port: port, Cards: t.engineCards(r.cards), Weights: weights, WorkDir: work,
	})
	if err != nil {
		return launched{}, err
	}
	if plan.Command[0], err = findProgram(m.Engine, plan.Command[0]); err != nil {
		return launched{}, err
	}
	// 3. Start it.
	proc, err := supervise.Start(t.cfg.Executable, t.runs.ID(r.uid), supervise.Spec{
		Command: plan.Command, Env: append(baseEnv(work), plan.Env...), Dir: work, UID: who.UID, LogFile: t.logPath(r.object, r.index),
	})
	if err != nil {
		return launched{}, explainStart(err, who)
	}
	// The record only helps a later sweep, which also finds processes by their
	// environment; a full disk must not keep a model from running.
	if err := t.runs.Remember(r.uid, r.object, proc); err != nil {
		t.log.Warn("cannot record a started process", "object", r.object, "err", err)
	}
	return launched{plan: plan, proc: proc, port: port, user: who}, nil
}

// baseEnv is all that an engine sees of ModelDock's own environment.
func baseEnv(work string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + work, "TMPDIR=" + filepath.Join(work, "tmp"), "LANG=C.UTF-8",
	}
}

// findProgram takes absolute paths and names on PATH: what stands beside
// ModelDock's working directory is no part of a request.
func findProgram(kind modelspec.Engine, name string) (string, error) {
	if strings.Contains(name, "/") && !filepath.IsAbs(name) {
		return "", fmt.Errorf("engine %q: the program %q must be an absolute path, or a name on the PATH of modeldock", kind, name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("engine %q needs the program %s, which cannot be started from here (%w): install it, or put it on the PATH of modeldock", kind, name, err)
	}
	return path, nil
}

func explainStart(err error, who user) error {
	if who.UID > 0 && errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w (it runs as uid %d of tenant %s, which must be able to read and execute the program and to enter every folder above it)", err, who.UID, who.Tenant)
	}
	return err
}

// freePort asks the kernel for a port that is free now and that no other
// replica was given. Nobody keeps it free until the engine listens, so the
// listener is checked before it is used.
func (t *Target) freePort(ctx context.Context) (int, error) {
	for range 20 {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return 0, fmt.Errorf("find a free port: %w", err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("find a free port: %w", err)
		}
		if !t.portGiven(port) {
			return port, nil
		}
	}
	return 0, errors.New("find a free port: the kernel keeps offering ports that other replicas use")
}

func (t *Target) portGiven(port int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.objects {
		for _, s := range o.slots {
			if s.run != nil && s.run.port == port {
				return true
			}
		}
	}
	return false
}

func (t *Target) engineCards(cards []delivery.Card) []engine.Card {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]engine.Card, len(cards))
	for i, c := range cards {
		out[i] = engine.Card{UUID: c.UUID, MiB: c.MiB, Simulated: c.Simulated}
		for _, have := range t.cards {
			if have.UUID == c.UUID {
				out[i].TotalMiB = have.Total
			}
		}
	}
	return out
}
