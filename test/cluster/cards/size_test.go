//go:build cluster

package cards

import (
	"context"
	"os/exec"
	"strings"
	"testing"
)

// An agent that counts in other units than the API server's policies does not
// start, and says which two sizes disagree and where both are set.
func TestAgentsOfAnotherSizeDoNotStart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, ground.binary, "agent", "--node", "nowhere", "--kubeconfig", ground.kubeconfig, "--ops-listen", "127.0.0.1:0",
		"--cards", "2x24576", "--kubelet-dir", t.TempDir(), "--chunk-mib", "512").CombinedOutput()
	if err == nil || ctx.Err() != nil {
		t.Fatalf("it ended with %v (%v):\n%s", err, ctx.Err(), out)
	}
	for _, part := range []string{"in chunks of 512 MiB", "policy modeldock-gpu-scheduling", "in chunks of 256 MiB", "gpu.chunkMiB of the chart"} {
		if !strings.Contains(string(out), part) {
			t.Errorf("it does not say %q:\n%s", part, out)
		}
	}
}
