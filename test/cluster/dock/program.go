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
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "modeldock.io")
	root, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("find the sources of modeldock: %w", err)
	}
	path := filepath.Join(dir, "modeldock")
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "./cmd/modeldock")
	build.Dir = strings.TrimSpace(string(root))
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build modeldock: %w: %s", err, out)
	}
	return path, nil
}
