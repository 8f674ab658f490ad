package engine

import (
	"fmt"
	"strings"

	"modeldock.io/internal/modelspec"
)

// CheckSource returns a *modelspec.FieldError on model.source where m's engine
// can never be given it, on whatever machine: a scheme that nobody knows, a
// path that is not absolute, nothing after the scheme. It looks at nothing but
// the words; whether the weights are there is found out where they are needed.
func CheckSource(m modelspec.Model) error {
	refuse := func(format string, args ...any) error {
		return &modelspec.FieldError{Field: "model.source", Message: fmt.Sprintf(format, args...)}
	}
	src, err := ParseSource(m.Source)
	if err != nil {
		return refuse("%s", err.Error())
	}
	switch src.Scheme {
	case "file", "hf", "s3", "oci", "pvc":
	case "":
		if strings.HasPrefix(src.Rest, "file:") || strings.HasPrefix(src.Rest, "hf:") {
			return refuse("model.source %q lacks the // after its scheme, as in file:///models/tiny.gguf or hf://org/model", m.Source)
		}
	default:
		return refuse("model.source %q begins with %s://, which no engine reads; use file://, hf://, s3://, oci:// or pvc://", m.Source, src.Scheme)
	}
	if src.Scheme == "file" && src.Rest == "/" {
		return refuse("model.source %q names the root directory; name the model's file or directory, for example file:///models/tiny.gguf", m.Source)
	}
	if src.Scheme != "" && strings.Trim(src.Rest, "/") == "" {
		return refuse("model.source %q names nothing after %s://", m.Source, src.Scheme)
	}
	if src.Scheme == "" && needsWeights(m.Engine) {
		return refuse("%s", needsSource(m, "hf://org/model or file:///path/to/the/weights").Error())
	}
	return nil
}

// needsWeights reports whether an engine starts nothing without a source that
// says where to get it: the others bring their model along, or know it by name.
func needsWeights(kind modelspec.Engine) bool {
	return kind == modelspec.EngineLlamaCpp || kind == modelspec.EngineVLLM || kind == modelspec.EngineSGLang
}
