//go:build engines

// Package engines serves a real model on a real engine, end to end. It is
// opt-in: MODELDOCK_TEST_GGUF names a small GGUF file, and ollama or
// llama-server is on PATH.
package engines

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"modeldock.io/test/onemachine"
	"modeldock.io/test/scenario"
)

func TestRealModelOnRealEngine(t *testing.T) {
	t.Parallel()
	weights, err := filepath.Abs(os.Getenv("MODELDOCK_TEST_GGUF"))
	if err != nil || os.Getenv("MODELDOCK_TEST_GGUF") == "" {
		t.Fatal("MODELDOCK_TEST_GGUF must name a GGUF file")
	}
	ran := 0
	for engine, program := range map[string]string{"ollama": "ollama", "llamacpp": "llama-server"} {
		if _, err := exec.LookPath(program); err != nil {
			continue
		}
		ran++
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			serve(t, engine, weights)
		})
	}
	if ran == 0 {
		t.Fatal("neither ollama nor llama-server is on PATH")
	}
}

func serve(t *testing.T, engine, weights string) {
	m := onemachine.New(t)
	a := scenario.As(t, m, "team-a")
	a.Submit("stories", 1, map[string]any{"model": map[string]any{"engine": engine, "source": "file://" + weights, "gpuMemoryMiB": 1024}})
	a.Ready("stories")
	s := a.Chat(t.Context(), "stories", map[string]any{"max_tokens": 24}, nil)
	if s.Status != 200 || !s.Done || s.Chunks == 0 {
		t.Fatalf("chat: %+v", s)
	}
	scenario.Eventually(t, "three yes", func() bool {
		e := a.Explain("stories")
		return e.BrokenAt == nil && e.Answers.FirstChunkDelivered != nil && *e.Answers.FirstChunkDelivered
	}, func() any { return a.Explain("stories") })
	a.Release("stories")
	a.Released("stories")
	if n := m.Engines(t, "team-a", "stories"); n != 0 {
		t.Errorf("%d processes outlive the release", n)
	}
	scenario.VerifyClean(t, m)
}
