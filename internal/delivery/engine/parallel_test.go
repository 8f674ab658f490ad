package engine

import (
	"testing"

	"modeldock.io/internal/modelspec"
)

func TestParallel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		engine modelspec.Engine
		args   []string
		want   int
	}{
		{modelspec.EngineSimulated, nil, 16},
		{modelspec.EngineSimulated, []string{"--concurrency=3"}, 3},
		{modelspec.EngineSimulated, []string{"--concurrency"}, 0},
		{modelspec.EngineVLLM, nil, 0},
		{modelspec.EngineVLLM, []string{"--max-num-seqs", "8", "--max-num-seqs=64"}, 64},
		{modelspec.EngineVLLM, []string{"--max-num-seqs"}, 0},
		{modelspec.EngineSGLang, []string{"--max-running-requests", "12"}, 12},
		{modelspec.EngineLlamaCpp, []string{"-np", "4", "--temp", "5"}, 4},
		{modelspec.EngineLlamaCpp, []string{"--parallel", "-1"}, 0},
		{modelspec.EngineCustom, []string{"--parallel", "4"}, 0},
	} {
		if got := Parallel(modelspec.Model{Name: "m", Engine: c.engine, Args: c.args}); got != c.want {
			t.Errorf("%s %v: %d, want %d", c.engine, c.args, got, c.want)
		}
	}
}
