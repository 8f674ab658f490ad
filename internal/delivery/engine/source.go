package engine

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
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
	if scheme != "file" {
		return Source{Scheme: scheme, Rest: rest}, nil
	}
	path, err := url.PathUnescape(rest)
	if err != nil || !filepath.IsAbs(path) {
		return Source{}, fmt.Errorf("model.source %q must name an absolute path, for example file:///models/tiny.gguf", s)
	}
	return Source{Scheme: scheme, Rest: filepath.Clean(path)}, nil
}
