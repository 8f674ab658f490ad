package engine

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"modeldock.io/internal/modelspec"
)

// Source is where a model's weights come from.
type Source struct {
	Scheme string // file, hf, s3, oci, pvc; empty: a plain name
	Rest   string // for file an absolute, clean path
}

// ParseSource reads model.source. An empty one is an empty Source.
func ParseSource(s string) (Source, error) {
	scheme, rest, found := strings.Cut(s, "://")
	if !found {
		return Source{Rest: s}, nil
	}
	if strings.HasPrefix(rest, "-") {
		return Source{}, fmt.Errorf("model.source %q starts with a dash and could be taken for a flag", s)
	}
	if scheme == "hf" && !isHubModel(rest) {
		return Source{}, fmt.Errorf("model.source %q must name a model of the hub, for example hf://org/model or hf://org/model:Q4_K_M; engines take anything else for a path of theirs", s)
	}
	if scheme != "file" {
		return Source{Scheme: scheme, Rest: rest}, nil
	}
	path, err := url.PathUnescape(rest)
	if err != nil || !filepath.IsAbs(path) {
		return Source{}, fmt.Errorf("model.source %q must name an absolute path, for example file:///models/tiny.gguf", s)
	}
	return Source{Scheme: scheme, Rest: filepath.Clean(path)}, nil
}

// isHubModel reports whether engines can only read a name as one of the hub's:
// what looks like a path is opened as one where it exists.
func isHubModel(name string) bool {
	repository, tag, tagged := strings.Cut(name, ":")
	parts := strings.Split(repository, "/")
	if len(parts) > 2 || tagged && !isHubWord(tag) {
		return false
	}
	for _, p := range parts {
		if !isHubWord(p) {
			return false
		}
	}
	return true
}

// isHubWord: letters, digits and ._- with a letter, digit or underscore first.
func isHubWord(s string) bool {
	return s != "" && !strings.ContainsAny(s[:1], ".-") && !strings.Contains(s, "..") &&
		strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == ""
}

// NamesRegistry reports whether a plain name leads Ollama to a registry of the
// name's choice: host/namespace/model, instead of its own library's.
func NamesRegistry(m modelspec.Model) bool {
	return m.Engine == modelspec.EngineOllama && !strings.Contains(m.Source, "://") && strings.Count(m.Source, "/") > 1
}
