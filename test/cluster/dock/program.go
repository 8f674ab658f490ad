package dock

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ProgramVariable names a static modeldock that is there already.
const ProgramVariable = "MODELDOCK_STATIC_BIN"

// Program is a static modeldock, which also runs in a Pod without a
// distribution: the one that the environment names, or one that is built into
// dir.
func Program(ctx context.Context, dir string) (string, error) {
	if path := os.Getenv(ProgramVariable); path != "" {
		return path, nil
	}
	return build(ctx, filepath.Join(dir, "modeldock"), ".", "./cmd/modeldock")
}

// SchedulerVariable names a static modeldock-scheduler that is there already.
const SchedulerVariable = "MODELDOCK_SCHEDULER_BIN"

// SchedulerProgram is a modeldock-scheduler: the one that the environment
// names, or one that is built into dir.
func SchedulerProgram(ctx context.Context, dir string) (string, error) {
	if path := os.Getenv(SchedulerVariable); path != "" {
		return path, nil
	}
	return build(ctx, filepath.Join(dir, schedulerName), "scheduler", "./cmd/modeldock-scheduler")
}

// build builds a program of the module in a folder of the sources.
func build(ctx context.Context, to, module, what string) (string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "modeldock.io")
	root, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("find the sources of %s: %w", filepath.Base(to), err)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", to, what)
	cmd.Dir = filepath.Join(strings.TrimSpace(string(root)), module)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", filepath.Base(to), err, out)
	}
	return to, nil
}
