//go:build engines

package local

import (
	"os"
	"strings"
	"testing"

	"modeldock.io/internal/modelspec"
)

// A real engine: needs ollama on PATH and the path of a small GGUF in
// MODELDOCK_TEST_GGUF.
func TestOllamaServesAGGUF(t *testing.T) {
	t.Parallel()
	file := os.Getenv("MODELDOCK_TEST_GGUF")
	if file == "" {
		t.Fatal("MODELDOCK_TEST_GGUF must name a small GGUF")
	}
	b := setup(t)
	d := desired("team-a", "stories")
	d.Model.Engine, d.Model.Source, d.Model.Args = modelspec.EngineOllama, "file://"+file, nil
	obj := b.apply(d)
	st := b.untilReady(d)
	r := st.Replicas[0]
	if !strings.HasPrefix(r.Engine, "stories:latest") || r.Upstream != "stories" {
		t.Fatalf("identity %+v", r)
	}
	if answer := chat(t, r.Address, r.Upstream); !strings.Contains(answer, `"content":"`) {
		t.Fatalf("answer %s", answer)
	}
	b.delete(d, obj)
	b.untilGone(d)
	if left := family(t, b.target.runs.identity); len(left) != 0 {
		t.Fatalf("processes %v are left", left)
	}
}
