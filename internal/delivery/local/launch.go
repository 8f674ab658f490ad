package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"

	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/engine"
	"modeldock.io/internal/delivery/local/supervise"
	"modeldock.io/internal/modelspec"
)

// launch prepares a replica's directory, weights and port and starts its
// process under a supervisor.
func (t *Target) launch(ctx context.Context, r *run) (launched, error) {
	preparing, cancel := r.untilStop(ctx)
	l, spec, err := t.prepare(preparing, r)
	cancel()
	if err != nil {
		// Whoever reads the log must see it; later failures are the supervisor's to write.
		if lerr := supervise.Note(spec.LogFile, "could not be started: "+err.Error()); lerr != nil {
			t.log.Warn("cannot write into a replica's log", "object", r.object, "err", lerr)
		}
		return launched{}, err
	}
	if l.proc, err = supervise.Start(t.cfg.Executable, t.runs.ID(r.uid), spec); err != nil {
		return launched{}, explainStart(err, l.user)
	}
	// The record only helps a later sweep, which also finds processes by their
	// environment; a full disk must not keep a model from running.
	if err := t.runs.Remember(r.uid, r.object, l.proc); err != nil {
		t.log.Warn("cannot record a started process", "object", r.object, "err", err)
	}
	return l, nil
}

// prepare finds out everything that a start needs. The spec names the log
// even where it fails.
func (t *Target) prepare(ctx context.Context, r *run) (l launched, spec supervise.Spec, err error) {
	spec.LogFile = t.logPath(r.object, r.index)
	m := r.rec.Model
	preset, err := engine.For(m.Engine)
	if err != nil {
		return l, spec, err
	}
	// 1. Who it runs as, and where.
	if l.user, err = t.userFor(r.rec); err != nil {
		return l, spec, err
	}
	if err = checkEnv(l.user, m.Env); err != nil {
		return l, spec, err
	}
	if spec.Dir, err = t.scratch.Work(l.user, r.object); err != nil {
		return l, spec, err
	}
	weights, err := t.weights(ctx, l.user, m)
	if err != nil {
		return l, spec, err
	}
	// 2. What it runs.
	if l.port, err = t.freePort(ctx); err != nil {
		return l, spec, err
	}
	l.plan, err = preset.Plan(m, engine.Place{
		Executable: t.cfg.Executable, Port: l.port, Cards: t.engineCards(r.cards), Weights: weights, WorkDir: spec.Dir,
	})
	if err != nil {
		return l, spec, err
	}
	if l.plan.Command[0], err = t.program(l.user, m.Engine, l.plan.Command[0]); err != nil {
		return l, spec, err
	}
	spec.Command, spec.Env, spec.UID = l.plan.Command, append(baseEnv(spec.Dir), l.plan.Env...), l.user.UID
	// Wherever our program lies, a tenant's user need not be able to get there.
	spec.Self = m.Engine == modelspec.EngineSimulated
	return l, spec, nil
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
