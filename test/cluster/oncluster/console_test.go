//go:build cluster

package oncluster

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// consoleDir is where the browser's suite lives, seen from this package.
const consoleDir = "../../../console"

// The console, in a real browser against real Pods: two models run, the third
// is blocked, one is released, the third runs; by mouse and by keys alone.
func TestConsoleTellsTheStory(t *testing.T) {
	t.Parallel()
	vitest, err := filepath.Abs(filepath.Join(consoleDir, "node_modules", ".bin", "vitest"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(vitest); err != nil {
		t.Fatalf("the console's packages are not installed (npm ci in console, or scripts/test.sh cluster): %v", err)
	}
	i := ground.Install(t, Caps{Tenant: 2, Pool: 8})
	keys, err := json.Marshal(i.Keys)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, vitest, "run", "--config", "vitest.cluster.config.ts")
	cmd.Dir = consoleDir
	cmd.Env = append(os.Environ(), "MODELDOCK_URL="+i.Controllers[0].URL, "MODELDOCK_KEYS="+string(keys), "MODELDOCK_CARDS=none")
	// The browser must not outlive a suite that took too long.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the console's suite: %v\n%s", err, out)
	}
}
