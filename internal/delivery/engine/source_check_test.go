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
		{modelspec.EngineVLLM, "hf://", "names nothing"},
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
