package engine

import (
	"errors"
	"strings"
	"testing"

	"modeldock.io/internal/modelspec"
)

func TestCheckSource(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind   modelspec.Engine
		source string
		want   string // part of the refusal; empty: accepted
	}{
		{modelspec.EngineSimulated, "", ""},
		{modelspec.EngineSimulated, "ftp://x", "ftp://, which no engine reads"},
		{modelspec.EngineSimulated, "hf://org/model", ""},
		{modelspec.EngineCustom, "file://etc/passwd", "absolute path"},
		{modelspec.EngineCustom, "file://", "absolute path"},
		{modelspec.EngineCustom, "file:///", "root directory"},
		{modelspec.EngineCustom, "", ""},
		{modelspec.EngineLlamaCpp, "file:///models/tiny.gguf", ""},
		{modelspec.EngineLlamaCpp, "file:/models/tiny.gguf", "lacks the //"},
		{modelspec.EngineLlamaCpp, "", "cannot serve model.source"},
		{modelspec.EngineVLLM, "hf://", "a model of the hub"},
		{modelspec.EngineVLLM, "hf:///srv/models/of-others", "a model of the hub"},
		{modelspec.EngineVLLM, "hf://../of-others", "a model of the hub"},
		{modelspec.EngineVLLM, "hf://org/../../of-others", "a model of the hub"},
		{modelspec.EngineVLLM, "hf://./models", "a model of the hub"},
		{modelspec.EngineVLLM, "hf://org/model?revision=x", "a model of the hub"},
		{modelspec.EngineOllama, "hf://../evil.example/x/y", "a model of the hub"},
		{modelspec.EngineLlamaCpp, "hf://org/model:Q4_K_M", ""},
		{modelspec.EngineLlamaCpp, "hf://org/model:../x", "a model of the hub"},
		{modelspec.EngineSGLang, "hf://gpt2", ""},
		{modelspec.EngineSGLang, "http://169.254.169.254/latest/meta-data", "no engine reads"},
		{modelspec.EngineOllama, "https://evil.example/x/y", "no engine reads"},
		{modelspec.EngineCustom, "gopher://127.0.0.1:6379/x", "no engine reads"},
		{modelspec.EngineVLLM, "hf://--trust-remote-code", "dash"},
		{modelspec.EngineVLLM, "plain", "cannot serve model.source"},
		{modelspec.EngineVLLM, "s3://bucket/model", ""}, // not on one machine, but in a cluster
		{modelspec.EngineOllama, "qwen2.5:0.5b", ""},
		{modelspec.EngineOllama, "", ""},
		{modelspec.EngineSGLang, "HTTP://x", "no engine reads"},
	} {
		err := CheckSource(model(c.kind, func(m *modelspec.Model) { m.Source = c.source }))
		if c.want == "" && err == nil {
			continue
		}
		var field *modelspec.FieldError
		if !errors.As(err, &field) || field.Field != "model.source" || c.want == "" || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %q: %v, want %q", c.kind, c.source, err, c.want)
		}
	}
}
