package local

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/modelspec"
)

// read is what Logs says to the end.
func (b *bench) read(ctx context.Context, d delivery.Desired, replica string, follow bool) (string, error) {
	b.t.Helper()
	r, err := b.target.Logs(ctx, d.Ref, replica, 0, follow)
	if err != nil {
		return "", err
	}
	raw, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		b.t.Fatal(err)
	}
	return string(raw), nil
}

// A replica that could not even be started says so in its log.
func TestLogsSayWhyNothingStarted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	plain := filepath.Join(t.TempDir(), "engine")
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for id, c := range map[string]struct {
		change func(*modelspec.Model)
		want   string
	}{
		"no-right": {func(m *modelspec.Model) {
			m.Engine, m.Args, m.Command = modelspec.EngineCustom, nil, []string{plain}
		}, "cannot be started"},
		"no-program": {func(m *modelspec.Model) {
			m.Engine, m.Args, m.Command = modelspec.EngineCustom, nil, []string{"/nowhere/engine"}
		}, "/nowhere/engine"},
		"bad-source": {func(m *modelspec.Model) {
			m.Engine, m.Args, m.Source = modelspec.EngineVLLM, nil, "file:///nowhere/weights"
		}, "file:///nowhere/weights is no"},
	} {
		d := desired("t", id, c.change)
		b.apply(d)
		b.until(d, "failed", func(s delivery.Status) bool { return s.LastFailure != nil && s.LastFailure.NeverRan })
		if text, err := b.read(t.Context(), d, "", false); err != nil || !strings.Contains(text, "could not be started: ") || !strings.Contains(text, c.want) {
			t.Errorf("%s: the log says %q (%v)", id, text, err)
		}
	}
}

// A replica without output is no unknown one, and says what it waits for.
func TestLogsBeforeTheFirstOutput(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := desired("t", "huge", withMemory(1_000_000))
	obj := b.apply(d)
	b.until(d, "held", func(s delivery.Status) bool { return s.Reason == delivery.NoFragmentFits })
	if text, err := b.read(t.Context(), d, "", false); err != nil || !strings.Contains(text, "no output yet: NoFragmentFits, largest fragment") {
		t.Errorf("the log says %q (%v)", text, err)
	}
	follow, err := b.target.Logs(t.Context(), d.Ref, "0", 0, true)
	if err != nil {
		t.Fatal(err)
	}
	b.delete(d, obj)
	b.untilGone(d)
	if raw, err := io.ReadAll(follow); err != nil || !strings.Contains(string(raw), "no output yet") {
		t.Errorf("followed %q (%v)", raw, err)
	}
}

// Replicas go by their number too; an unknown one is told which there are.
func TestLogsByNumber(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := desired("t", "demo")
	d.Funded = 2
	b.apply(d)
	b.untilReady(d)
	full, err := b.read(t.Context(), d, d.Name+"-1", false)
	if err != nil || !strings.Contains(full, "loading demo") {
		t.Fatalf("%q (%v)", full, err)
	}
	if text, err := b.read(t.Context(), d, "1", false); err != nil || text != full {
		t.Errorf("by number %q (%v), by name %q", text, err, full)
	}
	for _, ask := range []string{"2", "-1", "demo-0", "../../instance"} {
		_, err := b.read(t.Context(), d, ask, false)
		var unknown *delivery.UnknownReplicaError
		if !errors.As(err, &unknown) || !errors.Is(err, budget.ErrNotFound) || !slices.Equal(unknown.Existing, []string{d.Name + "-0", d.Name + "-1"}) || !strings.Contains(err.Error(), d.Name+"-1") {
			t.Errorf("%s: %v", ask, err)
		}
	}
	nobody := desired("t", "nobody")
	if _, err := b.read(t.Context(), nobody, "", false); err == nil || !strings.Contains(err.Error(), "has no replica yet") {
		t.Errorf("a request without a replica: %v", err)
	}
}

// Following ends with the object, after everything that it wrote.
func TestFollowedLogsEndWithTheObject(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := desired("t", "demo")
	obj := b.apply(d)
	b.untilReady(d)
	follow, err := b.target.Logs(t.Context(), d.Ref, "", 0, true)
	if err != nil {
		t.Fatal(err)
	}
	b.delete(d, obj)
	raw, err := io.ReadAll(follow)
	if err != nil || !strings.Contains(string(raw), "ended: code") {
		t.Fatalf("followed %q (%v)", raw, err)
	}
	if again, err := b.read(t.Context(), d, "", true); err != nil || again != string(raw) {
		t.Fatalf("followed after the end %q (%v)", again, err)
	}
}
